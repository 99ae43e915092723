// Package mesh runs a Consul service mesh in a lab: a server; an edge node with
// a service web and an ingress gateway; and two nodes with a backend each, to
// which both lead. Every node has an agent, on a loopback address of its own, and
// a daemon; every service has a real Envoy as its sidecar, an observer by the
// daemon's command bootstrap.
package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/test/lab"
)

// Options of a Mesh.
type Options struct {
	// DaemonConfig is HCL laid over the lab's own, of all daemons.
	DaemonConfig string
	// Backends are registered so at first.
	Backends Registration
}

// Mesh is a running mesh.
type Mesh struct {
	Server *lab.Consul
	Edge   *Edge
	// Plain has its app on the machine's loopback interface.
	Plain *Backend
	// Hidden has its app and its sidecar in a network namespace, where the
	// machine allows that; else it is as Plain.
	Hidden *Backend

	lab     *lab.Lab
	options Options

	mu        sync.Mutex
	processes []*lab.Process
	relays    []*lab.Relay
}

// Node is a node of the mesh.
type Node struct {
	// Address is the IP address of the agent, of the node and of its services.
	Address string
	Consul  *lab.Consul
	Daemon  *lab.Daemon

	mesh *Mesh
}

// The loopback addresses of server and nodes.
const (
	serverAddress = "127.0.20.1"
	edgeAddress   = "127.0.20.2"
	plainAddress  = "127.0.20.3"
	hiddenAddress = "127.0.20.4"
)

// Start starts a mesh, and waits until all its Envoys are there, which says
// nothing of what Consul has given them yet. It ends with Close, or with the lab.
func Start(ctx context.Context, l *lab.Lab, options Options) (*Mesh, error) {
	m := &Mesh{lab: l, options: options}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a mesh: %w", err), m.Close())
	}
	return m, nil
}

func (m *Mesh) start(ctx context.Context) (err error) {
	m.Server, err = m.lab.StartConsul(ctx, lab.ConsulOptions{Name: "mesh-server", Address: serverAddress, Persistent: true})
	if err != nil {
		return err
	}
	m.ends(m.Server.Process)
	speaksHTTP := &api.ProxyConfigEntry{Kind: api.ProxyDefaults, Name: api.ProxyConfigGlobal, Config: map[string]any{"protocol": "http"}}
	if _, _, err := m.Server.Client().ConfigEntries().Set(speaksHTTP, nil); err != nil {
		return fmt.Errorf("setting the protocol: %w", err)
	}
	namespace, err := m.lab.NewNamespace()
	if err != nil && !errors.Is(err, lab.ErrNoNamespaces) {
		return err
	}
	var all errgroup.Group
	all.Go(func() (err error) { m.Edge, err = m.startEdge(ctx); return err })
	all.Go(func() (err error) { m.Plain, err = m.startBackend(ctx, "backend-1", plainAddress, nil); return err })
	all.Go(func() (err error) {
		m.Hidden, err = m.startBackend(ctx, "backend-2", hiddenAddress, namespace)
		return err
	})
	return all.Wait()
}

// startNode starts an agent and a daemon.
func (m *Mesh) startNode(ctx context.Context, name, address, config string) (*Node, error) {
	n := &Node{Address: address, mesh: m}
	var err error
	n.Consul, err = m.lab.StartConsul(ctx, lab.ConsulOptions{Name: name, Address: address, Server: m.Server, GRPCSocket: true})
	if err != nil {
		return nil, err
	}
	m.ends(n.Consul.Process)
	n.Daemon, err = m.lab.StartDaemon(ctx, lab.DaemonOptions{Name: name + "-hds", Consul: n.Consul, Config: m.options.DaemonConfig + config})
	if err != nil {
		return nil, err
	}
	m.ends(n.Daemon.Process)
	return n, n.Daemon.WaitReady(ctx)
}

// startProxy starts the Envoy of a proxy or gateway that is registered: what
// `consul connect envoy -bootstrap | consul-hds bootstrap` prints.
func (n *Node) startProxy(ctx context.Context, id string, namespace *lab.Namespace) (*lab.Envoy, error) {
	consuls, err := n.Consul.ProxyBootstrap(ctx, id)
	if err != nil {
		return nil, err
	}
	bootstrap, err := n.mesh.lab.Filter(ctx, consuls, "bootstrap", "-hds-addr", n.Daemon.HDSAddr())
	if err != nil {
		return nil, err
	}
	e, err := n.mesh.lab.StartEnvoy(ctx, lab.EnvoyOptions{Name: id, Bootstrap: bootstrap, Namespace: namespace})
	if err == nil {
		n.mesh.ends(e.Process)
	}
	return e, err
}

func (n *Node) addr(port int) string { return net.JoinHostPort(n.Address, strconv.Itoa(port)) }

// ends ends a process with the mesh.
func (m *Mesh) ends(p *lab.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.processes = append(m.processes, p)
}

// Processes are all that the mesh consists of, in the order of their start.
func (m *Mesh) Processes() []*lab.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.processes)
}

// Close kills all processes, newest first.
func (m *Mesh) Close() error {
	var errs []error
	for _, p := range slices.Backward(m.Processes()) {
		errs = append(errs, p.Kill())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.relays {
		r.Close()
	}
	return errors.Join(errs...)
}
