package catalog

import (
	"context"
	"time"
)

// backoff is an exponential pause with jitter: the n-th pause is drawn from the
// upper half of 2·floor, 4·floor, … up to ceiling, so it is never below floor.
type backoff struct {
	floor, ceiling time.Duration
	span           time.Duration
	draw           draw
}

func (b *backoff) next() time.Duration {
	b.span = min(max(2*b.span, 2*b.floor), max(b.ceiling, 2*b.floor))
	return b.span/2 + b.draw(b.span/2+1)
}

func (b *backoff) reset() { b.span = 0 }

// draw draws the random part of a pause: from 0 to below n.
type draw func(n time.Duration) time.Duration

// jitter spreads d by a tenth to both sides.
func (r draw) jitter(d time.Duration) time.Duration {
	return d - d/10 + r(d/5+1)
}

// sleep waits for d or for the end of ctx; it says whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// poke leaves a signal in a channel of capacity 1; a second one is the same.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain takes back a signal that is about to be served anyway.
func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
