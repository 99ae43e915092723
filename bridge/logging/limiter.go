// Package logging keeps what happens over and over from filling a log.
package logging

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// every is how often the same is logged at most, once its burst is used up.
	every = time.Minute
	// mostKeys bounds what is told apart: some keys come from the network.
	mostKeys = 1000
	// otherKeys is the key of all beyond that.
	otherKeys = ""
)

// Limiter logs what may happen over and over. What has the same key is logged at
// once as often as the burst allows, and then once a minute, as its newest line
// with the number of all that the line stands for (count). At level DEBUG the lines
// between are logged as well. Its methods may be called from any goroutine.
type Limiter struct {
	logger hclog.Logger
	burst  int

	mu    sync.Mutex
	byKey map[string]*window
}

// window is the minute of one key.
type window struct {
	began time.Time
	// said is the number of lines that were logged in it.
	said int
	// held is how many lines wait to be logged, and newest the last of them; there is
	// one for each node id, so it is not kept longer.
	held   int
	newest line
}

type line struct {
	level   hclog.Level
	message string
	args    []any
}

// NewLimiter makes a limiter. A fault has a burst of 1: its first line says all.
// Turns, such as the begin and the end of a stream, have a larger one, so that
// only those in a loop are held back.
func NewLimiter(logger hclog.Logger, burst int) *Limiter {
	return &Limiter{logger: logger, burst: burst, byKey: map[string]*window{}}
}

// Log logs a line now, or holds it back.
func (l *Limiter) Log(now time.Time, level hclog.Level, key, message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(key, now)
	w.held++
	w.newest = line{level, message, args}
	if w.said < l.burst {
		l.say(w)
		return
	}
	l.logger.Debug(message, args...)
}

// window finds the window of a key, a new one if the last is over. While lines of
// the last one wait, the new one is for one line.
func (l *Limiter) window(key string, now time.Time) *window {
	w := l.byKey[key]
	if w == nil && len(l.byKey) >= mostKeys {
		key = otherKeys
		w = l.byKey[key]
	}
	switch {
	case w == nil, now.Sub(w.began) >= 2*every: // what nobody has asked for since is of the past
		w = &window{began: now}
		l.byKey[key] = w
	case now.Sub(w.began) >= every && w.held == 0:
		*w = window{began: now}
	case now.Sub(w.began) >= every:
		w.began, w.said = now, l.burst-1
	}
	return w
}

func (l *Limiter) say(w *window) {
	args := w.newest.args
	if w.held > 1 {
		args = append(args[:len(args):len(args)], "count", w.held)
	}
	l.logger.Log(w.newest.level, w.newest.message, args...)
	w.said, w.held, w.newest = w.said+1, 0, line{}
}

// Flush logs what has waited for a minute.
func (l *Limiter) Flush(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, w := range l.byKey {
		switch {
		case now.Sub(w.began) < every:
		case w.held == 0:
			delete(l.byKey, key)
		default:
			w.began, w.said = now, l.burst-1
			l.say(w)
		}
	}
}

// Run flushes from time to time until ctx ends: for what has to be told even if
// it does not happen once more.
func (l *Limiter) Run(ctx context.Context) {
	tick := time.NewTicker(every / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.Flush(now)
		}
	}
}
