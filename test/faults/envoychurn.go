package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// editEvery is the pause between two edits.
	editEvery = 500 * time.Millisecond
	// churnGuests is how many guests come and go in the node Envoy; one more does in
	// a sidecar.
	churnGuests = 20
	// turnEvery is the pause between two turns of the apps meanwhile.
	turnEvery = 15 * time.Second
	// specifiersSent is Envoy's counter of the specifiers that it was sent.
	specifiersSent = "hds_delegate.requests"
)

// churning edits registrations twice a second, so that clusters come and go while
// many of their probes fail (envoy #40443: this has crashed Envoys). The definitions
// of the steady instances change each time, too; those that turn keep theirs.
func churning(name string, lasts time.Duration, short bool) scenario {
	return scenario{name: name, group: "envoy", what: "clusters come and go twice a second, while probes fail", long: brief(lasts), short: short, setting: quick(),
		run: func(ctx context.Context, t *trial) (err error) {
			c := &churn{trial: t, random: rand.New(rand.NewPCG(1, 0))}
			defer func() { err = errors.Join(err, c.end(ctx)) }()
			if err := c.begin(ctx); err != nil {
				return err
			}
			return c.goOn(ctx, lasts)
		}}
}

// churn is what comes and goes.
type churn struct {
	*trial
	random *rand.Rand
	edits  int
	// sent is how many specifiers the node Envoy had been sent at the begin.
	sent uint64
	// ports are those of apps that are well, fail, hang and refuse.
	ports   []int
	apps    []*lab.App
	guests  []guest
	sidecar *lab.Envoy
}

func (c *churn) begin(ctx context.Context) error {
	for range 3 {
		app, err := c.lab.StartApp()
		if err != nil {
			return err
		}
		c.apps, c.ports = append(c.apps, app), append(c.ports, app.Port())
	}
	c.apps[1].SetStatus(http.StatusServiceUnavailable)
	c.apps[2].SetHang(true)
	refusing, err := c.lab.Port()
	if err != nil {
		return err
	}
	c.ports = append(c.ports, refusing)
	for n := range churnGuests {
		c.guests = append(c.guests, guest{id: fmt.Sprint("guest-", n), port: c.ports[n%len(c.ports)]})
	}
	c.guests = append(c.guests, guest{id: "guest-meshed", port: refusing, meshed: true})
	if err := c.host(c.guests); err != nil {
		return err
	}
	if err := c.startGuestSidecar(ctx); err != nil {
		return err
	}
	c.sent, err = c.node.Stat(ctx, specifiersSent)
	return err
}

func (c *churn) startGuestSidecar(ctx context.Context) error {
	id := c.guests[churnGuests].sidecarID()
	bootstrap, err := c.agent.ProxyBootstrap(ctx, id)
	if err != nil {
		return err
	}
	c.sidecar, err = c.lab.StartEnvoy(ctx, lab.EnvoyOptions{Name: id, Bootstrap: bootstrap, HDSAddr: c.daemon.HDSAddr()})
	return err
}

// goOn edits for a time, and turns the apps now and then, the first time early.
func (c *churn) goOn(ctx context.Context, lasts time.Duration) error {
	tick := time.NewTicker(editEvery)
	defer tick.Stop()
	begun := time.Now()
	for turnAt := lasts / 4 % turnEvery; time.Since(begun) < lasts; <-tick.C {
		if err := errors.Join(context.Cause(ctx), c.edit(), c.alive(c.sidecar)); err != nil {
			return err
		}
		if time.Since(begun) >= turnAt {
			turnAt += turnEvery
			if err := c.turnBusy("churn"); err != nil {
				return err
			}
		}
	}
	return c.arrived(ctx)
}

// edit gives guests that chance chooses another definition, or none. That in the
// sidecar has another each time: its clusters go while they fail, hang or refuse.
func (c *churn) edit() error {
	c.edits++
	var edited []guest
	for n := range c.guests {
		g := &c.guests[n]
		if !g.meshed && c.random.IntN(2) == 0 {
			continue
		}
		g.meta = map[string]string{"hds": "off"}
		if g.meshed || c.random.IntN(3) > 0 {
			g.meta = c.definition()
		}
		edited = append(edited, *g)
	}
	return errors.Join(c.host(edited), c.redefineSteady(fmt.Sprint("?n=", c.edits)))
}

// definition is one that no guest has had before.
func (c *churn) definition() map[string]string {
	return map[string]string{
		"hds": "http", "hds_path": fmt.Sprintf("%s?n=%d", healthPath, c.edits), "hds_interval": "100ms", "hds_timeout": "250ms",
		"hds_port": strconv.Itoa(c.ports[c.random.IntN(len(c.ports))]),
	}
}

// redefineSteady gives the steady instances another definition, which means the same.
func (c *churn) redefineSteady(query string) error {
	for _, i := range c.instances {
		if i.flips || i.elsewhere {
			continue
		}
		i.query = query
		if err := c.registerOne(i, api.ServiceRegisterOpts{}); err != nil {
			return err
		}
	}
	return nil
}

// arrived is an error unless the Envoys were sent what was edited: else nothing was
// tried. Changes that follow one another soon are sent together.
func (c *churn) arrived(ctx context.Context) error {
	node, err := c.node.Stat(ctx, specifiersSent)
	if err != nil {
		return err
	}
	sidecar, err := c.sidecar.Stat(ctx, specifiersSent)
	if err != nil {
		return err
	}
	c.note("%d edits: %d specifiers for the node Envoy, %d for the sidecar", c.edits, node-c.sent, sidecar)
	if least := uint64(c.edits / 4); node-c.sent < least || sidecar < least {
		return errors.New("the Envoys were hardly asked for anything new")
	}
	return nil
}

// end gives the steady instances their definition back, and takes all else away.
func (c *churn) end(ctx context.Context) error {
	err := errors.Join(c.redefineSteady(""), c.seeOff(ctx, c.guests))
	if c.sidecar != nil {
		err = errors.Join(err, c.sidecar.Kill())
	}
	for _, a := range c.apps {
		a.Close()
	}
	return err
}
