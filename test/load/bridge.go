package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/probe"
	"github.com/consul-hds/consul-hds/bridge/telemetry"
	"github.com/consul-hds/consul-hds/config"
)

// counted are the daemon's metrics, which count reports for the bench too.
type counted struct {
	*telemetry.Metrics
	server *server
}

// ReportChanged implements hds.Metrics.
func (c counted) ReportChanged() {
	c.Metrics.ReportChanged()
	c.server.reports.Add(1)
}

// ReportUnchanged implements hds.Metrics.
func (c counted) ReportUnchanged() {
	c.Metrics.ReportUnchanged()
	c.server.reports.Add(1)
}

// runBridge runs the daemon's HDS server as the daemon does, with a plan of as
// many endpoints as it was started for, all of them of every Envoy.
func (s *server) runBridge(ctx context.Context) error {
	n, err := strconv.Atoi(os.Getenv(endpointsVariable))
	if err != nil {
		return err
	}
	metrics, served := telemetry.New("load"), telemetry.NewCalls()
	if err := metrics.Registry().Register(served); err != nil {
		return err
	}
	c := hds.Config{
		Listen: []string{s.address}, SocketMode: 0o600, SocketGID: -1, MaxStreams: 1024,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn}), Metrics: counted{metrics, s},
		Options:  []grpc.ServerOption{grpc.ChainStreamInterceptor(served.Stream), grpc.ChainUnaryInterceptor(served.Unary)},
		Register: served.Preset, Settled: hds.FreeMemory,
	}
	if s.tls != nil {
		c.TLS = func() *tls.Config { return s.tls }
	}
	h, err := hds.New(c)
	if err != nil {
		return err
	}
	h.SetPlan(planOf(n))
	go func() {
		for range h.Updates() {
			h.TakeNews()
		}
	}()
	return h.Run(ctx)
}

// planOf is a plan of n endpoints for every Envoy.
func planOf(n int) *hds.Plan {
	snap := &catalog.Snapshot{Node: catalog.Node{Name: "node", Address: "127.0.0.1"}, Instances: map[string]*catalog.Instance{}}
	for i := range n {
		id := fmt.Sprintf("steady-%05d", i)
		snap.Instances[id] = &catalog.Instance{ID: id, Service: id, Port: 10000 + i, Meta: map[string]string{"hds": "http"}}
	}
	d := config.Default().Defaults
	rules := &probe.Rules{Defaults: probe.Settings{
		Interval: d.Interval, Timeout: d.Timeout, HealthyThreshold: d.HealthyThreshold, UnhealthyThreshold: d.UnhealthyThreshold, Observer: probe.Auto,
	}}
	derived := probe.Derive(probe.World{Snapshot: snap}, rules, nil)
	return hds.NewPlan(hds.PlanConfig{NodeIDs: []string{"*"}, ReportInterval: reportInterval}, snap, derived.Probes)
}
