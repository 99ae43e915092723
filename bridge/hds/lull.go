package hds

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// burst is how many streams begin or end before what they have used for it is worth
	// to be given back, and settledAfter is how long none has when that is done: by then
	// their reports are packed.
	burst        = 8
	settledAfter = packAfter + time.Second
	// settleApart is how far apart at least that is: it costs a collection.
	settleApart = time.Minute
)

// lull calls a function once nothing has stirred for settledAfter after a burst, or
// when that does not come settleApart after it, and at most once in settleApart. Its
// methods may be called from any goroutine.
type lull struct {
	call func() // nil is nothing to call

	mu sync.Mutex
	// stirs is how often something has stirred since the last call, and due when the
	// next is due at the latest, once these make a burst.
	stirs   int
	due     time.Time
	timer   *time.Timer
	called  time.Time
	stopped bool
}

// stir begins the wait anew.
func (l *lull) stir() {
	if l.call == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stirs++
	if l.stopped || l.stirs < burst {
		return
	}
	now := time.Now()
	if l.stirs == burst {
		l.due = now.Add(settleApart)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	quiet, apart := min(settledAfter, l.due.Sub(now)), l.called.Add(settleApart).Sub(now)
	l.timer = time.AfterFunc(max(quiet, apart), l.settle)
}

// settle calls, unless a stir at this very moment has made it wait anew.
func (l *lull) settle() {
	l.mu.Lock()
	now := time.Now()
	off := l.stopped || l.stirs < burst || now.Before(l.called.Add(settleApart))
	if !off {
		l.called, l.stirs = now, 0
	}
	l.mu.Unlock()
	if !off {
		l.call()
	}
}

// stop ends the wait for good.
func (l *lull) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// FreeMemory gives back to the system what is free. It is what Config.Settled is in the
// daemon, takes some milliseconds, and may be called from any goroutine.
func FreeMemory() {
	runtime.GC() // what pools hold goes with the second collection
	debug.FreeOSMemory()
}
