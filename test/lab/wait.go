package lab

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// pollEvery is the pause between two tries of Eventually.
const pollEvery = 10 * time.Millisecond

// Eventually calls f every 10 ms until it returns nil. After timeout, or when
// ctx ends, it gives up and returns the reason together with f's last error.
func Eventually(ctx context.Context, timeout time.Duration, f func() error) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-deadline.C:
			return fmt.Errorf("not within %s: %w", timeout, err)
		case <-tick.C:
		}
	}
}

// Every calls f at each tick of interval, or less often if it takes longer, until
// ctx ends.
func Every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// Pause waits, unless ctx ends: then it returns why.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// SignalContext is a context that ends with SIGINT, SIGTERM or SIGHUP, and also
// when the parent process dies: a run whose make or go was killed ends itself.
// After its end, signals have their usual effect again.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, stop)
	go watchParent(ctx, cancel)
	return ctx, func() { cancel(context.Canceled) }
}

func watchParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				cancel(fmt.Errorf("the parent process %d has ended", parent))
				return
			}
		}
	}
}
