package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// serverAddress and agentAddress are the loopback addresses of the two nodes.
	serverAddress = "127.0.21.1"
	agentAddress  = "127.0.21.2"
	// peerAddress is that of a further server, by number.
	peerAddress = "127.0.21.1%d"

	nodeEnvoy   = "node-envoy"
	serviceName = "web"
	ingressName = "ingress"
	// healthPath is where an app tells of its health; all else it serves whatever
	// that says.
	healthPath = "/health"
	// patience bounds every wait that is not itself judged.
	patience = time.Minute
)

// world is what scenarios break: a Consul server, or three, with an ingress gateway beside
// it where users come in, and a node with an agent, a daemon, instances, a node
// Envoy and sidecars. Only the node is consul-hds's.
type world struct {
	lab     *lab.Lab
	setting setting

	server, agent *lab.Consul
	// peers are the other servers of a world that has three.
	peers  []*lab.Consul
	daemon *lab.Daemon
	// conf is the daemon's configuration.
	conf string
	// node is the node Envoy.
	node, ingress *lab.Envoy
	instances     []*instance
	// entry is the URL of the ingress.
	entry string
	// links are the relays in the links of a world that has them. linking is held
	// while one is made: Envoys start at once.
	links   links
	linking sync.Mutex

	closes []func() error
	// processes are all that were started, whose logs tell of them.
	processes []*lab.Process
}

// startWorld starts a world and waits until it is well.
func startWorld(ctx context.Context, l *lab.Lab, s setting) (*world, error) {
	w := &world{lab: l, setting: s}
	err := w.start(ctx)
	if err == nil {
		err = w.well(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a world: %w", err), w.close())
	}
	return w, nil
}

func (w *world) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.startConsuls, w.startDaemon, w.register, w.startEnvoys, w.remembered} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ends ends a process with the world.
func (w *world) ends(p *lab.Process) {
	w.closes = append(w.closes, p.Kill)
	w.processes = append(w.processes, p)
}

// saveLogs writes what all processes have printed so far into a folder.
func (w *world) saveLogs(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	for _, p := range w.processes {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, p.Name()+".log"), []byte(p.Log()), 0o644))
	}
	return err
}

// close ends all, newest first.
func (w *world) close() error {
	var errs []error
	for _, c := range slices.Backward(w.closes) {
		errs = append(errs, c())
	}
	w.closes = nil
	return errors.Join(errs...)
}

func (w *world) startConsuls(ctx context.Context) (err error) {
	server := lab.ConsulOptions{Name: "faults-server", Address: serverAddress, Persistent: true}
	agent := lab.ConsulOptions{Name: "faults-agent", Address: agentAddress}
	if w.setting.consuls != nil {
		w.setting.consuls(&server, &agent)
	}
	if w.setting.cluster {
		if err := w.startPeers(ctx); err != nil {
			return err
		}
		server.Server, agent.Server = w.peers[0], w.peers[0]
	}
	if w.server, err = w.lab.StartConsul(ctx, server); err != nil {
		return err
	}
	w.ends(w.server.Process)
	if _, err := w.via(linkAgentServer, w.server.RPCAddr()); err != nil {
		return err
	}
	if agent.Server == nil {
		agent.Server = w.server
	}
	if w.agent, err = w.lab.StartConsul(ctx, agent); err != nil {
		return err
	}
	w.ends(w.agent.Process)
	return nil
}

func (w *world) startDaemon(ctx context.Context) error {
	agent, err := w.via(linkDaemonAgent, w.agent.HTTPAddr())
	if err != nil {
		return err
	}
	w.conf = w.setting.hcl(nodeEnvoy) + fmt.Sprintf("consul {\n  address = %q\n}\n", agent)
	opts := lab.DaemonOptions{Name: "faults-hds", Config: w.conf}
	if w.setting.daemon != nil {
		if err := w.setting.daemon(ctx, w, &opts); err != nil {
			return err
		}
	}
	if w.daemon, err = w.lab.StartDaemon(ctx, opts); err != nil {
		return err
	}
	w.ends(w.daemon.Process)
	return w.daemon.WaitReady(ctx)
}

// via is the address to use for a link.
func (w *world) via(link, address string) (string, error) {
	if w.setting.via == nil {
		return address, nil
	}
	return w.setting.via(w, link, address)
}

// query is a question to Consul that ends with ctx.
func query(ctx context.Context) *api.QueryOptions { return (&api.QueryOptions{}).WithContext(ctx) }
