package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/hashicorp/consul/api"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
)

// weighed is how often a read is made to weigh it.
const weighed = 200

// load is what a server has counted so far.
type load struct {
	// writes are changes of the catalog; entries and bytes those of the raft log,
	// of which coordinates are no work of checks.
	writes, entries, bytes, coordinates float64
	// queries are reads that came in, blocking how many are held now.
	queries, blocking float64
}

// since is what has been counted since an earlier load.
func (l load) since(before load) load {
	return load{l.writes - before.writes, l.entries - before.entries, l.bytes - before.bytes, l.coordinates - before.coordinates,
		l.queries - before.queries, l.blocking}
}

// weigh is how many bytes the server writes for a read that reaches it by way of
// the agent. It makes the read many times, beside which all else vanishes.
func (c *cluster) weigh(read func(*api.QueryOptions) error) (int, error) {
	proc, err := procfs.NewProc(c.server.Pid())
	if err != nil {
		return 0, err
	}
	before, err := proc.IO()
	if err != nil {
		return 0, err
	}
	for range weighed {
		if err := read(&api.QueryOptions{AllowStale: true}); err != nil {
			return 0, err
		}
	}
	after, err := proc.IO()
	return int(after.WChar-before.WChar) / weighed, err
}

// driftRead is what the daemon reads once a minute, and bell what its doorbell
// answers when it rings.
func (c *cluster) driftRead(q *api.QueryOptions) error {
	_, _, err := c.client.Health().Node(c.consul.NodeName(), q)
	return err
}

func (c *cluster) bell(q *api.QueryOptions) error {
	_, _, err := c.client.Catalog().NodeServiceList(c.consul.NodeName(), q)
	return err
}

// load asks the server for what it counts.
func (c *cluster) load(ctx context.Context) (l load, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.server.HTTPAddr()+"/v1/agent/metrics?format=prometheus", nil)
	if err != nil {
		return l, err
	}
	req.Header.Set("X-Consul-Token", rootToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return l, err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := families(resp.Body)
	if err != nil {
		return l, fmt.Errorf("the server's metrics (%s): %w", resp.Status, err)
	}
	return loadOf(all)
}

// registrations is how often the daemon has registered a check.
func (c *cluster) registrations(ctx context.Context) (n float64, err error) {
	body, err := c.daemon.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	all, err := families(bytes.NewReader(body))
	for _, m := range all["consul_hds_check_writes_total"].GetMetric() {
		if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == "register" }) {
			n += m.GetCounter().GetValue()
		}
	}
	return n, err
}

// families reads metrics in the text form of Prometheus.
func families(text io.Reader) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	return p.TextToMetricFamilies(text)
}

// loadOf reads a load from Consul's metrics. One that is missing is an error:
// what a Consul does not count is not nothing.
func loadOf(families map[string]*dto.MetricFamily) (l load, err error) {
	var errs []error
	metric := func(name string) *dto.Metric {
		if all := families[name].GetMetric(); len(all) == 1 {
			return all[0]
		}
		errs = append(errs, fmt.Errorf("the server has no metric %s", name))
		return nil
	}
	for _, name := range []string{"register", "deregister", "txn"} {
		l.writes += float64(metric("consul_fsm_" + name).GetSummary().GetSampleCount())
	}
	l.coordinates = float64(metric("consul_fsm_coordinate_batch_update").GetSummary().GetSampleCount())
	raft := metric("consul_raft_boltdb_logSize").GetSummary()
	l.entries, l.bytes = float64(raft.GetSampleCount()), raft.GetSampleSum()
	l.queries, l.blocking = metric("consul_rpc_query").GetCounter().GetValue(), metric("consul_rpc_queries_blocking").GetGauge().GetValue()
	return l, errors.Join(errs...)
}
