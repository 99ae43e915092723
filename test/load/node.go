package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/consul/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/consul-hds/consul-hds/test/lab"
)

// node is what row 6 compares, all of it running side by side: the same
// instances on three agents, and three sets of real Envoys. The apps that are
// probed run in this process, which is not measured, and are the same for all.
type node struct {
	apps []*lab.App
	// idle is an agent whose instances nobody checks; own checks each app by an
	// HTTP check of its own; served is the daemon's.
	idle, own, served *lab.Consul
	daemon            *lab.Daemon
	// probing are the daemon's Envoys; resting have nothing to probe and no HDS;
	// bare have the probes of probing written into their bootstraps.
	probing, resting, bare []*lab.Envoy
}

// probesEach is how many probes each of the Envoys has.
const probesEach = 20

// start starts it all, and waits until all checks pass.
func (n *node) start(ctx context.Context, l *lab.Lab, envoys int) (err error) {
	for range envoys * probesEach {
		app, err := l.StartApp()
		if err != nil {
			return err
		}
		n.apps = append(n.apps, app)
	}
	if err := n.startAgents(ctx, l); err != nil {
		return err
	}
	if err := n.startBridge(ctx, l, envoys); err != nil {
		return err
	}
	if n.resting, err = startEnvoys(ctx, l, envoys, func(i int) lab.EnvoyOptions { return lab.EnvoyOptions{NodeID: sidecarID(i)} }); err != nil {
		return err
	}
	return n.startBare(ctx, l, envoys)
}

// close ends as much of it as has been started.
func (n *node) close() {
	var running []*lab.Process
	for _, agent := range []*lab.Consul{n.idle, n.own, n.served} {
		if agent != nil {
			running = append(running, agent.Process)
		}
	}
	if n.daemon != nil {
		running = append(running, n.daemon.Process)
	}
	for _, p := range slices.Concat(running, processes(n.probing), processes(n.resting), processes(n.bare)) {
		_ = p.Kill()
	}
	for _, app := range n.apps {
		app.Close()
	}
}

// startAgents starts the agents and registers the instances on them; the sidecars
// are there on all, as their own cost is nobody's checking.
func (n *node) startAgents(ctx context.Context, l *lab.Lab) (err error) {
	for _, a := range []struct {
		agent **lab.Consul
		check func(port int) *api.AgentServiceCheck
	}{{&n.idle, nil}, {&n.own, ownCheck}, {&n.served, nil}} {
		if *a.agent, err = l.StartConsul(ctx, lab.ConsulOptions{}); err != nil {
			return err
		}
		if err := n.register((*a.agent).Client().Agent(), a.check); err != nil {
			return err
		}
	}
	return awaitPassing(ctx, n.own, "http", len(n.apps))
}

// awaitPassing waits until so many checks of a type pass.
func awaitPassing(ctx context.Context, agent *lab.Consul, kind string, n int) error {
	return lab.Eventually(ctx, patience, func() error {
		passing, err := agent.Client().Agent().ChecksWithFilter(fmt.Sprintf("Type == %q and Status == passing", kind))
		if err == nil && len(passing) != n {
			err = fmt.Errorf("%d checks of type %s are passing, want %d", len(passing), kind, n)
		}
		return err
	})
}

// ownCheck is the agent's own check that does what the default probe does.
func ownCheck(port int) *api.AgentServiceCheck {
	return &api.AgentServiceCheck{HTTP: fmt.Sprintf("http://127.0.0.1:%d/", port), Interval: "1s", Timeout: "1s"}
}

// register registers an instance for each app, and a sidecar for the first of
// each probesEach, with the alias check that Consul gives sidecars.
func (n *node) register(agent *api.Agent, check func(port int) *api.AgentServiceCheck) error {
	for i, app := range n.apps {
		r := &api.AgentServiceRegistration{ID: appID(i), Name: appID(i), Address: "127.0.0.1", Port: app.Port()}
		if check != nil {
			r.Check = check(app.Port())
		}
		if err := agent.ServiceRegister(r); err != nil {
			return err
		}
	}
	for i := range len(n.apps) / probesEach {
		parent := appID(i * probesEach)
		err := agent.ServiceRegister(&api.AgentServiceRegistration{
			Kind: api.ServiceKindConnectProxy, ID: sidecarID(i), Name: parent + "-sidecar-proxy", Address: "127.0.0.1", Port: 9,
			Proxy:  &api.AgentServiceConnectProxyConfig{DestinationServiceName: parent, DestinationServiceID: parent, LocalServicePort: n.apps[i*probesEach].Port()},
			Checks: api.AgentServiceChecks{{AliasService: parent}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func appID(i int) string     { return fmt.Sprintf("app-%03d", i) }
func sidecarID(i int) string { return fmt.Sprintf("app-%03d-sidecar-proxy", i*probesEach) }

// startBridge starts the daemon, and its Envoys as the sidecars. A sidecar probes
// its own instance alone: that has probesEach checks, one for each app. A profile of
// the daemon can be taken meanwhile.
func (n *node) startBridge(ctx context.Context, l *lab.Lab, envoys int) (err error) {
	var config strings.Builder
	config.WriteString("log_level = \"info\"\nadmin {\n  enable_debug = true\n}\n")
	for i, app := range n.apps {
		if i%probesEach == 0 {
			fmt.Fprintf(&config, "service %q {\n", appID(i))
		}
		fmt.Fprintf(&config, "  check \"p%03d\" {\n    http {\n      port = %d\n    }\n  }\n", i, app.Port())
		if (i+1)%probesEach == 0 {
			config.WriteString("}\n")
		}
	}
	if n.daemon, err = l.StartDaemon(ctx, lab.DaemonOptions{Consul: n.served, Config: config.String()}); err != nil {
		return err
	}
	if err := n.daemon.WaitReady(ctx); err != nil {
		return err
	}
	n.probing, err = startEnvoys(ctx, l, envoys, func(i int) lab.EnvoyOptions {
		return lab.EnvoyOptions{NodeID: sidecarID(i), HDSAddr: n.daemon.HDSAddr()}
	})
	if err != nil {
		return err
	}
	return awaitPassing(ctx, n.served, "ttl", len(n.apps))
}

// startEnvoys starts some Envoys, each with its own options. Those that have been
// started are returned with an error, too.
func startEnvoys(ctx context.Context, l *lab.Lab, n int, options func(i int) lab.EnvoyOptions) (out []*lab.Envoy, err error) {
	for i := range n {
		e, err := l.StartEnvoy(ctx, options(i))
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// startBare starts Envoys that have the same health checks as the daemon's, word
// for word, in clusters of their bootstraps: what HDS cannot cost less than.
func (n *node) startBare(ctx context.Context, l *lab.Lab, envoys int) error {
	var bootstraps [][]byte
	for i := range envoys {
		spec, err := n.specifier(ctx, sidecarID(i))
		if err != nil {
			return err
		}
		b, err := staticBootstrap(spec)
		if err != nil {
			return err
		}
		bootstraps = append(bootstraps, b)
	}
	var err error
	n.bare, err = startEnvoys(ctx, l, envoys, func(i int) lab.EnvoyOptions {
		return lab.EnvoyOptions{NodeID: sidecarID(i), Bootstrap: bootstraps[i]}
	})
	return err
}

// specifier is what the daemon asks of an Envoy.
func (n *node) specifier(ctx context.Context, nodeID string) (*healthv3.HealthCheckSpecifier, error) {
	body, err := n.daemon.Get(ctx, "/v1/observers/"+nodeID)
	if err != nil {
		return nil, err
	}
	var exchange struct {
		Specifier json.RawMessage `json:"specifier"`
	}
	if err := json.Unmarshal(body, &exchange); err != nil {
		return nil, fmt.Errorf("reading what %s is asked: %w", nodeID, err)
	}
	spec := &healthv3.HealthCheckSpecifier{}
	return spec, protojson.Unmarshal(exchange.Specifier, spec)
}

// staticBootstrap has a cluster for each of a specifier.
func staticBootstrap(spec *healthv3.HealthCheckSpecifier) ([]byte, error) {
	var clusters []json.RawMessage
	for _, c := range spec.GetClusterHealthChecks() {
		b, err := protojson.Marshal(staticCluster(c))
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, b)
	}
	return json.Marshal(map[string]any{"static_resources": map[string]any{"clusters": clusters}})
}

// staticCluster is a cluster with the endpoints and checks of one of a specifier,
// and the connect timeout that Envoy gives those.
func staticCluster(c *healthv3.ClusterHealthCheck) *clusterv3.Cluster {
	load := &endpointv3.ClusterLoadAssignment{ClusterName: c.GetClusterName()}
	for _, l := range c.GetLocalityEndpoints() {
		locality := &endpointv3.LocalityLbEndpoints{Locality: l.GetLocality()}
		for _, e := range l.GetEndpoints() {
			locality.LbEndpoints = append(locality.LbEndpoints, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: e}})
		}
		load.Endpoints = append(load.Endpoints, locality)
	}
	return &clusterv3.Cluster{
		Name: c.GetClusterName(), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout: durationpb.New(1e9), LoadAssignment: load, HealthChecks: c.GetHealthChecks(),
	}
}
