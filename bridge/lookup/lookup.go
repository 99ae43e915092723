// Package lookup keeps answers to questions that take time, such as what a host
// name resolves to or what a file holds: whoever decides by them asks once what
// is wanted, reads the answers as values, and never waits.
package lookup

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Entry is the state of one key.
type Entry[T any] struct {
	// Value is the last good answer; it means nothing unless Good.
	Value T
	// Good says that there has been a good answer.
	Good bool
	// Err is why the newest try failed, nil if it did not.
	Err error
}

// Config is what a table needs.
type Config[T any] struct {
	// Fetch answers for a key; last is the last good answer, if there was one. It
	// should end with ctx. One that does not is not asked again for the key before
	// it has ended, and holds up no other key.
	Fetch func(ctx context.Context, key string, last T) (T, error)
	// Equal says whether two answers are one.
	Equal func(a, b T) bool
	// Every is the pause between two fetches of a key, Timeout bounds each.
	Every, Timeout time.Duration
}

// Table keeps the answers for a set of keys. Its methods may be called from any
// goroutine, and only Run waits.
type Table[T any] struct {
	config  Config[T]
	updates chan struct{}
	wanted  chan struct{}

	mu   sync.Mutex
	keys map[string]*key[T]
}

// key is one key of a table.
type key[T any] struct {
	entry Entry[T]
	tried bool
	busy  bool
	// due is when the key is to be fetched next.
	due time.Time
}

// New makes a table without keys; it fetches when Run is called.
func New[T any](config Config[T]) *Table[T] {
	return &Table[T]{config: config, updates: make(chan struct{}, 1), wanted: make(chan struct{}, 1), keys: map[string]*key[T]{}}
}

// Want replaces the set of keys. New ones are fetched at once, others forgotten.
func (t *Table[T]) Want(keys map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.keys {
		if !keys[k] {
			delete(t.keys, k)
		}
	}
	for k := range keys {
		if t.keys[k] == nil {
			t.keys[k] = &key[T]{}
			poke(t.wanted)
		}
	}
}

// Updates holds a signal whenever an entry has changed since the last one.
func (t *Table[T]) Updates() <-chan struct{} { return t.updates }

// Entries returns the keys that were tried, with their state.
func (t *Table[T]) Entries() map[string]Entry[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]Entry[T], len(t.keys))
	for k, e := range t.keys {
		if e.tried {
			out[k] = e.entry
		}
	}
	return out
}

// Run fetches until ctx ends, and then returns nil once no fetch is under way
// that heeds it.
func (t *Table[T]) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.wanted:
		}
		timer.Reset(t.fetchDue(ctx, time.Now()))
	}
}

// fetchDue starts to fetch every key that is due and returns the pause until
// the next one is.
func (t *Table[T]) fetchDue(ctx context.Context, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := t.config.Every
	for name, k := range t.keys {
		if k.busy {
			continue
		}
		if left := k.due.Sub(now); left > 0 {
			pause = min(pause, left)
			continue
		}
		k.busy, k.due = true, now.Add(t.config.Every)
		go t.fetch(ctx, name, k)
	}
	return pause
}

func (t *Table[T]) fetch(ctx context.Context, name string, k *key[T]) {
	ctx, cancel := context.WithTimeout(ctx, t.config.Timeout)
	defer cancel()
	late := time.AfterFunc(t.config.Timeout, func() {
		t.settle(k, Entry[T]{Err: fmt.Errorf("no answer within %s", t.config.Timeout)})
	})
	t.mu.Lock()
	last := k.entry.Value
	t.mu.Unlock()
	value, err := t.config.Fetch(ctx, name, last)
	if late.Stop() || err == nil {
		t.settle(k, Entry[T]{Value: value, Good: err == nil, Err: err})
	}
	t.mu.Lock()
	k.busy = false
	t.mu.Unlock()
}

// settle takes over how a fetch ended. A failure leaves the last good answer.
func (t *Table[T]) settle(k *key[T], got Entry[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := k.entry
	if !got.Good {
		got.Value, got.Good = before.Value, before.Good
	}
	changed := !k.tried || got.Good != before.Good || fmt.Sprint(got.Err) != fmt.Sprint(before.Err) ||
		got.Good && !t.config.Equal(got.Value, before.Value)
	k.entry, k.tried = got, true
	if changed {
		poke(t.updates)
	}
}

// poke leaves a signal, unless one is there.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
