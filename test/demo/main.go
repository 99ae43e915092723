// Command demo shows what consul-hds does, on a real Consul and a real Envoy: an
// unhealthy instance leaves Consul's routing, and comes back.
//
// On a terminal it stays until Ctrl-C. With ONCE=1, or without a terminal, it
// ends after the story: with exit code 0, or with what went wrong. With
// LAB_KEEP=1 it leaves its work folder, with all logs, behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"github.com/consul-hds/consul-hds/test/lab"
)

func main() {
	lab.AppMain()
	// A closed pipe (make demo | head) must not keep us from cleaning up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := lab.SignalContext(context.Background())
	code := report(ctx, run(ctx))
	stop()
	os.Exit(code)
}

// report says how it ended, and returns the exit code.
func report(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errStayed):
		fmt.Println("\nStopped; nothing is left behind.")
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; nothing is left behind")
		return 130
	default:
		fmt.Fprintln(os.Stderr, "\ndemo: FAILED:", err)
		return 1
	}
}

// errStayed is the end of a demo that had stayed after its story.
var errStayed = errors.New("stopped by the user")

func run(ctx context.Context) (err error) {
	fmt.Println("Consul, Envoy and consul-hds: getting ready")
	l, err := lab.New(ctx, lab.Options{Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := l.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("cleaning up: %w", closeErr)
		}
	}()
	d := &demo{lab: l}
	if err := d.setUp(ctx); err != nil {
		return err
	}
	d.printPlaces()
	if err := d.tell(ctx); err != nil {
		return d.explain(err)
	}
	if !interactive() {
		return nil
	}
	return d.stay(ctx)
}

func interactive() bool {
	return os.Getenv("ONCE") != "1" && isatty.IsTerminal(os.Stdin.Fd()) && isatty.IsTerminal(os.Stdout.Fd())
}

// stay waits for Ctrl-C, or for the end of anything that should not end.
func (d *demo) stay(ctx context.Context) error {
	fmt.Printf("\nEverything keeps running until Ctrl-C. Play with it, for instance:\n"+
		"  curl -X POST 'http://%s/behave?status=500'\n", d.apps["web-1"].Addr())
	var died string
	select {
	case <-ctx.Done():
		return errStayed
	case <-terminalGone():
		return errStayed
	case <-d.consul.Done():
		died = "Consul"
	case <-d.envoy.Done():
		died = "Envoy"
	case <-d.daemon.Done():
		died = "consul-hds"
	}
	if ctx.Err() != nil {
		return errStayed // it ended because we do
	}
	return d.explain(errors.New(died + " has ended"))
}

// terminalGone is closed when the terminal hangs up. The kernel tells only the
// session leader, which may be a make that does not pass it on.
func terminalGone() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		stdin := []unix.PollFd{{Fd: 0}} // no events: hang-up and errors only
		for {
			if _, err := unix.Poll(stdin, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return gone
}

// explain adds the end of the daemon's log to a failure.
func (d *demo) explain(err error) error {
	return fmt.Errorf("%w\n\nThe end of the daemon's log (LAB_KEEP=1 keeps all logs, in a folder below .lab):\n%s",
		err, d.daemon.LogTail(25))
}
