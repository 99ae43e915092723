package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
	"github.com/consul-hds/consul-hds/test/lab/mesh"
)

// wellFor is for how long a world has to be well to count as well.
const wellFor = 300 * time.Millisecond

// well waits until all is as it should be for a while: every probe is answered,
// agent, catalog and DNS show each instance as it is, and the ingress leads to healthy
// instances only, to each that has a sidecar.
func (w *world) well(ctx context.Context) error {
	since := time.Now()
	return lab.Eventually(ctx, patience, func() error {
		for _, check := range []func(context.Context) error{w.reported, w.held, w.shown, w.used} {
			if err := check(ctx); err != nil {
				since = time.Now()
				return fmt.Errorf("the world is not well: %w", err)
			}
		}
		if time.Since(since) < wellFor {
			return fmt.Errorf("the world is well for %s only", time.Since(since))
		}
		return nil
	})
}

// reported says that the daemon has an answer of an Envoy for each instance, of
// how it is.
func (w *world) reported(ctx context.Context) error {
	status, err := w.daemon.Status(ctx)
	if err != nil {
		return err
	}
	for _, i := range w.instances {
		check, _ := status.Check(i.checkID())
		if check.Phase != "reported" && !i.elsewhere {
			return fmt.Errorf("the daemon's check of %s is %q", i.id, check.Phase)
		}
	}
	return nil
}

// remembered waits until a server that dies would know the agent again. What it has
// seen join is written to its disk along with some later event, and a server that has
// lost that removes the node, with all its checks, when it is back, until the agent
// looks for the server again after up to 30 s (seen on Consul 1.13.9).
func (w *world) remembered(ctx context.Context) error {
	file := filepath.Join(w.server.DataDir(), "serf", "local.snapshot")
	return lab.Eventually(ctx, patience, func() error {
		known, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(known), "alive: "+w.agent.NodeName()+" ") {
			_, _, err := w.server.Client().Event().Fire(&api.UserEvent{Name: "remember"}, nil)
			return errors.Join(errors.New("the server has not written down that the agent has joined"), err)
		}
		return nil
	})
}

// held says that the agent holds each check as its instance is: one that it could not
// tell its servers of would be told later, in the midst of something else.
func (w *world) held(ctx context.Context) error {
	checks, err := w.agent.Client().Agent().ChecksWithFilterOpts("", query(ctx))
	if err != nil {
		return err
	}
	for _, i := range w.instances {
		if c := checks[i.checkID()]; !i.elsewhere && (c == nil || (c.Status == api.HealthPassing) != i.healthy) {
			return fmt.Errorf("the agent holds %+v of %s", c, i.id)
		}
	}
	return nil
}

// shown says that catalog and DNS show each instance as it is.
func (w *world) shown(ctx context.Context) error {
	for s, ask := range w.sources() {
		l, err := ask(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		for n, i := range w.instances {
			if c := wrong(i.healthy, l.states[n], s); c != right {
				return fmt.Errorf("%s: %s is %s", s, i.id, c)
			}
		}
	}
	return nil
}

// used says that each healthy instance with a sidecar, and no other instance,
// answers requests.
func (w *world) used(ctx context.Context) error {
	client := &http.Client{Timeout: lookTimeout, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	got := map[string]bool{}
	for range 12 {
		by, err := mesh.Ask(ctx, client, w.entry)
		if err != nil {
			return fmt.Errorf("the ingress: %w", err)
		}
		got[by] = true
	}
	for _, i := range w.instances {
		if want := i.healthy && i.meshed; got[i.id] != want {
			return fmt.Errorf("the ingress leads to %s: %t, and not %t; %s", i.id, got[i.id], want, w.heard(ctx, i))
		}
	}
	return nil
}

// heard says what Consul's servers and the ingress have heard of an instance's sidecar.
func (w *world) heard(ctx context.Context, i *instance) string {
	public := ":" + strconv.Itoa(i.public)
	entries, _, err := w.server.Client().Health().Connect(serviceName, "", false, query(ctx))
	flags, err2 := w.ingress.HealthFlags(ctx)
	if err = errors.Join(err, err2); err != nil {
		return err.Error()
	}
	said := []string{"the servers have no such sidecar"}
	for _, e := range entries {
		if e.Service.ID != i.sidecarID() {
			continue
		}
		said[0] = "the servers have it"
		for _, c := range e.Checks {
			said = append(said, c.CheckID+" is "+c.Status)
		}
	}
	for endpoint, flag := range flags {
		if strings.HasSuffix(endpoint, public) {
			said = append(said, "the ingress's "+endpoint+" is "+flag)
		}
	}
	return strings.Join(said, ", ")
}

// numberOf is the number of an instance, -1 if there is none.
func (w *world) numberOf(is func(*instance) bool) int { return slices.IndexFunc(w.instances, is) }
