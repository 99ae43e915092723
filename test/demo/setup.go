package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// envoyID is the node id by which the daemon knows the node Envoy.
const envoyID = "demo-node-envoy"

// daemonConfig is all that the daemon needs to be told here, beside addresses.
const daemonConfig = `hds {
  node_ids = ["` + envoyID + `"]
}
`

// demo is the cast of the story.
type demo struct {
	lab    *lab.Lab
	consul *lab.Consul
	envoy  *lab.Envoy
	daemon *lab.Daemon
	apps   map[string]*lab.AppProcess // by service id
	start  time.Time                  // of the story
}

func (d *demo) setUp(ctx context.Context) (err error) {
	// Both first, so that what takes minutes is over before anything runs.
	if _, err = lab.EnvoyBinary(ctx, "", os.Stdout); err != nil {
		return err
	}
	if _, err = lab.ConsulBinary(ctx, os.Stdout); err != nil {
		return err
	}
	if _, err = d.lab.DaemonBinary(ctx); err != nil {
		return err
	}
	if d.consul, err = d.lab.StartConsul(ctx, lab.ConsulOptions{NodeName: "demo"}); err != nil {
		return err
	}
	d.daemon, err = d.lab.StartDaemon(ctx, lab.DaemonOptions{Consul: d.consul, Config: daemonConfig})
	if err != nil {
		return err
	}
	d.envoy, err = d.lab.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: envoyID, HDSAddr: d.daemon.HDSAddr()})
	if err != nil {
		return err
	}
	if err = d.daemon.WaitReady(ctx); err != nil {
		return err
	}
	if err = d.waitForEnvoy(ctx); err != nil {
		return err
	}
	d.apps = map[string]*lab.AppProcess{}
	for _, id := range []string{"web-1", "web-2"} {
		if d.apps[id], err = d.lab.StartAppProcess(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// waitForEnvoy waits until the daemon has the Envoy's stream.
func (d *demo) waitForEnvoy(ctx context.Context) error {
	err := lab.Eventually(ctx, stepTimeout, func() error {
		s, err := d.daemon.Status(ctx)
		if err != nil {
			return err
		}
		for _, o := range s.Observers {
			if o.NodeID == envoyID && o.Kind == "node" {
				return nil
			}
		}
		return errors.New("no node observer in /v1/status")
	})
	if err != nil {
		return d.explain(fmt.Errorf("waiting for Envoy's HDS stream: %w; the end of Envoy's log:\n%s",
			err, d.envoy.LogTail(10)))
	}
	return nil
}

func (d *demo) printPlaces() {
	daemon := d.daemon.Binary()
	if rel, err := filepath.Rel(d.lab.Root(), daemon); err == nil && filepath.IsLocal(rel) {
		daemon = rel
	}
	fmt.Printf("\nWhere to look meanwhile:\n")
	fmt.Printf("  Consul UI  http://%s/ui/dc1/services/web/instances\n", d.consul.HTTPAddr())
	fmt.Printf("  status     %s status -admin-addr %s\n", daemon, d.daemon.AdminAddr())
	fmt.Printf("             http://%s/v1/status\n", d.daemon.AdminAddr())
	fmt.Printf("  metrics    http://%s/metrics\n\n", d.daemon.AdminAddr())
}

// register registers an app as an instance of web, with the meta that has it
// probed, and without a check of Consul's own.
func (d *demo) register(ctx context.Context, id string) error {
	service := &api.AgentServiceRegistration{
		ID: id, Name: "web", Address: "127.0.0.1", Port: d.apps[id].Port(),
		Meta: map[string]string{"hds": "http", "hds_path": "/health"},
	}
	opts := api.ServiceRegisterOpts{}.WithContext(ctx)
	if err := d.consul.Client().Agent().ServiceRegisterOpts(service, opts); err != nil {
		return fmt.Errorf("registering %s: %w", id, err)
	}
	return nil
}
