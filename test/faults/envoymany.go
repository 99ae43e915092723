package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// manyEndpoints are manyPerGuest of each of manyGuests.
	manyEndpoints = manyGuests * manyPerGuest
	manyGuests    = 50
	manyPerGuest  = 100
	// manyPatience bounds the wait until all of them are probed.
	manyPatience = 3 * time.Minute
	// manyPause is the pause before a look at them all.
	manyPause = time.Second
)

// many has the node Envoy probe many more endpoints than those that turn, at a pace
// that the machine can bear. Apps that turn among them have to be seen as soon as
// ever: no fault allows more. Nothing is written of the many: it is an Envoy that is
// tried here, and no agent.
func many(ctx context.Context, t *trial) (err error) {
	app, err := t.lab.StartApp()
	if err != nil {
		return err
	}
	defer app.Close()
	var guests []guest
	for n := range manyGuests {
		guests = append(guests, guest{id: fmt.Sprintf("guest-%02d", n), port: app.Port()})
	}
	defer func() { err = errors.Join(err, t.configure(ctx, ""), t.seeOff(ctx, guests)) }()
	begun := time.Now()
	if err := t.configure(ctx, manyChecks()); err != nil {
		return err
	}
	if err := t.host(guests); err != nil {
		return err
	}
	if err := t.manyPass(ctx); err != nil {
		return err
	}
	t.note("%d more endpoints are healthy after %s", manyEndpoints, seconds(time.Since(begun)))
	err = t.each(ctx, func() error { t.turn(); return lab.Pause(ctx, busy) })
	return errors.Join(err, t.noteMemory(), t.alive())
}

// configure adds something to the daemon's configuration, by a reload.
func (w *world) configure(ctx context.Context, more string) error {
	if err := w.daemon.WriteConfig(w.conf + more); err != nil {
		return err
	}
	_, err := w.daemon.Put(ctx, "/v1/reload")
	return err
}

// manyChecks are those of one guest.
func manyChecks() string {
	var b strings.Builder
	fmt.Fprintf(&b, "service %q {\n", guestService)
	for n := range manyPerGuest {
		fmt.Fprintf(&b, `  check "c%d" {
    mode     = "shadow"
    interval = "30s"
    timeout  = "10s"
    http {
      path = "%s?n=%d"
    }
  }
`, n, healthPath, n)
	}
	return b.String() + "}\n"
}

// manyPass waits until an Envoy has said of all endpoints that they are healthy.
func (t *trial) manyPass(ctx context.Context) error {
	return lab.Eventually(ctx, manyPatience, func() error {
		if err := lab.Pause(ctx, manyPause); err != nil {
			return err
		}
		status, err := t.daemon.Status(ctx)
		healthy := 0
		for _, c := range status.Checks {
			if c.Service == guestService && c.Phase == "reported" && c.Status == api.HealthPassing {
				healthy++
			}
		}
		if err == nil && healthy != manyEndpoints {
			err = fmt.Errorf("%d of %d endpoints are healthy", healthy, manyEndpoints)
		}
		return err
	})
}

// noteMemory notes what daemon and node Envoy need.
func (t *trial) noteMemory() error {
	daemon, err := t.daemon.Resident()
	if err != nil {
		return err
	}
	envoy, err := t.node.Resident()
	if err != nil {
		return err
	}
	t.note("resident memory: daemon %d MB, node Envoy %d MB", daemon>>20, envoy>>20)
	return nil
}
