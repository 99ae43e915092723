package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	guestService = "guest"
	// atOnce is how many guests are registered at a time.
	atOnce = 8
)

// guest is an instance of another service, which no user asks for: it is there to
// be work for Envoys.
type guest struct {
	id string
	// port is where it is probed.
	port int
	meta map[string]string
	// meshed is true for one with a sidecar, which alone observes it.
	meshed bool
}

func (g guest) sidecarID() string { return g.id + "-sidecar-proxy" }

func (g guest) checkID() string { return "hds:" + g.id }

// register registers a guest, or registers it anew.
func (g guest) register(agent *api.Agent) error {
	err := agent.ServiceRegister(&api.AgentServiceRegistration{
		ID: g.id, Name: guestService, Address: "127.0.0.1", Port: g.port, Meta: maps.Clone(g.meta),
	})
	if err != nil || !g.meshed {
		return err
	}
	return agent.ServiceRegister(&api.AgentServiceRegistration{
		Kind: api.ServiceKindConnectProxy, ID: g.sidecarID(), Name: guestService + "-sidecar-proxy", Address: "127.0.0.1", Port: g.port,
		Checks: api.AgentServiceChecks{{AliasService: g.id}},
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: guestService, DestinationServiceID: g.id, LocalServiceAddress: "127.0.0.1", LocalServicePort: g.port,
		},
	})
}

// leave takes a guest away.
func (g guest) leave(agent *api.Agent) error {
	err := agent.ServiceDeregister(g.id)
	if g.meshed {
		err = errors.Join(err, agent.ServiceDeregister(g.sidecarID()))
	}
	return err
}

// host registers guests.
func (w *world) host(guests []guest) error {
	return ofAll(guests, func(g guest) error { return g.register(w.agent.Client().Agent()) })
}

// seeOff takes guests away, and waits until the daemon has none.
func (w *world) seeOff(ctx context.Context, guests []guest) error {
	if err := ofAll(guests, func(g guest) error { return g.leave(w.agent.Client().Agent()) }); err != nil {
		return err
	}
	return lab.Eventually(ctx, patience, func() error {
		status, err := w.daemon.Status(ctx)
		for _, c := range status.Checks {
			if c.Service == guestService {
				return fmt.Errorf("the daemon still has %s", c.CheckID)
			}
		}
		return err
	})
}

func ofAll(guests []guest, do func(guest) error) error {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, g := range guests {
		all.Go(func() error {
			if err := do(g); err != nil {
				return fmt.Errorf("%s: %w", g.id, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// lookPause is the pause before a look at all guests' checks, which are work for an
// agent.
const lookPause = 100 * time.Millisecond

// guestChecks are the statuses that the agent shows, by check, after a pause.
func (w *world) guestChecks(ctx context.Context) (map[string]string, error) {
	if err := lab.Pause(ctx, lookPause); err != nil {
		return nil, err
	}
	q := query(ctx)
	checks, err := w.agent.Client().Agent().ChecksWithFilterOpts(fmt.Sprintf("ServiceName == %q", guestService), q)
	statuses := map[string]string{}
	for id, c := range checks {
		if strings.HasPrefix(id, "hds:") {
			statuses[id] = c.Status
		}
	}
	return statuses, err
}
