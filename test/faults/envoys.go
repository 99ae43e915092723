package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/test/lab"
)

// startEnvoys starts all Envoys at once.
func (w *world) startEnvoys(ctx context.Context) error {
	var all errgroup.Group
	all.Go(func() (err error) { w.node, err = w.startNodeEnvoy(ctx); return err })
	all.Go(func() (err error) { w.ingress, err = w.startIngress(ctx); return err })
	envoys := []**lab.Envoy{&w.node, &w.ingress}
	for _, i := range w.instances {
		if i.meshed {
			all.Go(func() (err error) { i.sidecar, err = w.startSidecar(ctx, i); return err })
			envoys = append(envoys, &i.sidecar)
		}
	}
	err := all.Wait()
	for _, e := range envoys {
		if *e != nil {
			w.ends((*e).Process)
		}
	}
	return err
}

func (w *world) startNodeEnvoy(ctx context.Context) (*lab.Envoy, error) {
	hds, err := w.via(linkNodeDaemon, w.daemon.HDSAddr())
	if err != nil {
		return nil, err
	}
	return w.lab.StartEnvoy(ctx, lab.EnvoyOptions{Name: "faults-node-envoy", NodeID: nodeEnvoy, HDSAddr: hds})
}

// startSidecar starts what `consul connect envoy -bootstrap` prints, as an HDS
// client of the daemon on the same node, if there is one.
func (w *world) startSidecar(ctx context.Context, i *instance) (*lab.Envoy, error) {
	bootstrap, err := w.agentOf(i).ProxyBootstrap(ctx, i.sidecarID())
	if err != nil {
		return nil, err
	}
	opts := lab.EnvoyOptions{Name: i.sidecarID(), Bootstrap: bootstrap}
	switch {
	case i.flips:
		opts.HDSAddr, err = w.via(linkSidecarDaemon, w.daemon.HDSAddr())
	case !i.elsewhere:
		opts.HDSAddr = w.daemon.HDSAddr()
	}
	if err != nil {
		return nil, err
	}
	return w.lab.StartEnvoy(ctx, opts)
}

// startIngress starts an ingress gateway beside the server, which the daemon does
// not know of.
func (w *world) startIngress(ctx context.Context) (*lab.Envoy, error) {
	port, err := w.lab.Port()
	if err != nil {
		return nil, err
	}
	w.entry = "http://" + net.JoinHostPort(serverAddress, strconv.Itoa(port))
	err = w.server.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		Kind: api.ServiceKindIngressGateway, ID: ingressName, Name: ingressName, Address: serverAddress, Port: port,
	})
	if err == nil {
		err = w.configureMesh(port)
	}
	if err != nil {
		return nil, fmt.Errorf("registering the ingress gateway: %w", err)
	}
	bootstrap, err := w.server.ProxyBootstrap(ctx, ingressName)
	if err != nil {
		return nil, err
	}
	return w.lab.StartEnvoy(ctx, lab.EnvoyOptions{Name: "faults-ingress", Bootstrap: bootstrap})
}

// configureMesh has the mesh speak HTTP, and the ingress lead to the service.
func (w *world) configureMesh(port int) error {
	for _, entry := range []api.ConfigEntry{
		&api.ProxyConfigEntry{Kind: api.ProxyDefaults, Name: api.ProxyConfigGlobal, Config: map[string]any{"protocol": "http"}},
		&api.IngressGatewayConfigEntry{Kind: api.IngressGateway, Name: ingressName, Listeners: []api.IngressListener{{
			Port: port, Protocol: "http", Services: []api.IngressService{{Name: serviceName, Hosts: []string{"*"}}},
		}}},
		&api.ServiceIntentionsConfigEntry{Kind: api.ServiceIntentions, Name: "*", Sources: []*api.SourceIntention{
			{Name: "*", Action: api.IntentionActionAllow},
		}},
	} {
		if _, _, err := w.server.Client().ConfigEntries().Set(entry, nil); err != nil {
			return err
		}
	}
	return nil
}
