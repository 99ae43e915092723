package hds

import (
	"fmt"
	"net/netip"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// buildCluster makes the HDS cluster of a probe: one endpoint, one health check.
// Several checks in a cluster would overwrite one another's results
// (facts/envoy-hds.md 0.12).
func buildCluster(p *probe.Probe) *healthv3.ClusterHealthCheck {
	return &healthv3.ClusterHealthCheck{
		ClusterName:  p.Cluster,
		HealthChecks: []*corev3.HealthCheck{buildCheck(p)},
		LocalityEndpoints: []*healthv3.LocalityEndpoints{{
			Locality:  &corev3.Locality{},
			Endpoints: []*endpointv3.Endpoint{{Address: buildAddress(p.Target)}},
		}},
	}
}

// buildCheck makes the health check of a probe. HDS clusters carry no traffic,
// so the no-traffic intervals are those that apply, and their default is a
// minute (facts/envoy-hds.md 4.2). A new connection for each probe keeps an app
// that closes idle ones from failing them (0c).
func buildCheck(p *probe.Probe) *corev3.HealthCheck {
	s := p.Settings
	interval := durationpb.New(s.Interval)
	hc := &corev3.HealthCheck{
		Timeout:                      durationpb.New(s.Timeout),
		Interval:                     interval,
		NoTrafficInterval:            interval,
		NoTrafficHealthyInterval:     interval,
		IntervalJitterPercent:        probe.JitterPercent,
		HealthyThreshold:             wrapperspb.UInt32(uint32(s.HealthyThreshold)),
		UnhealthyThreshold:           wrapperspb.UInt32(uint32(s.UnhealthyThreshold)),
		ReuseConnection:              wrapperspb.Bool(false),
		AlwaysLogHealthCheckFailures: false,
	}
	switch s.Kind {
	case probe.HTTP:
		hc.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: buildHTTP(s)}
	case probe.TCP:
		hc.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}}
	}
	return hc
}

// buildHTTP makes the HTTP part of a health check. Every status is retriable,
// for one that is not would skip the unhealthy threshold (facts/envoy-hds.md
// 0.30).
func buildHTTP(s probe.Settings) *corev3.HealthCheck_HttpHealthCheck {
	h := &corev3.HealthCheck_HttpHealthCheck{
		Host:              s.Host,
		Path:              s.Path,
		Method:            corev3.RequestMethod(corev3.RequestMethod_value[s.Method]),
		CodecClientType:   typev3.CodecClientType_HTTP1,
		RetriableStatuses: []*typev3.Int64Range{{Start: 100, End: 600}},
	}
	for _, r := range s.ExpectedStatuses {
		h.ExpectedStatuses = append(h.ExpectedStatuses, &typev3.Int64Range{Start: int64(r.First), End: int64(r.Last) + 1})
	}
	return h
}

func buildAddress(t probe.Target) *corev3.Address {
	if t.Socket != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: t.Socket}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       t.Addr.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(t.Addr.Port())},
	}}}
}

// guard is the last look at a built cluster before it is sent: what would crash
// an Envoy, or make it refuse the whole specifier, must not get past it, even
// when the probe's own validation failed to see it.
func guard(c *healthv3.ClusterHealthCheck) error {
	if err := c.ValidateAll(); err != nil {
		return err
	}
	if len(c.HealthChecks) != 1 || len(c.LocalityEndpoints) != 1 || len(c.LocalityEndpoints[0].Endpoints) != 1 {
		return fmt.Errorf("not one health check and one endpoint")
	}
	if c.ClusterName == "" {
		return fmt.Errorf("no cluster name")
	}
	if err := guardAddress(c.LocalityEndpoints[0].Endpoints[0].GetAddress()); err != nil {
		return err
	}
	return guardCheck(c.HealthChecks[0])
}

func guardAddress(a *corev3.Address) error {
	if p := a.GetPipe(); p != nil {
		return probe.CheckSocket(p.Path)
	}
	s := a.GetSocketAddress()
	if s == nil {
		return fmt.Errorf("no address")
	}
	addr, err := netip.ParseAddr(s.Address)
	if err != nil || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() {
		return fmt.Errorf("address %q is no plain IP address", s.Address)
	}
	return probe.CheckPort(int(s.GetPortValue()))
}

func guardCheck(hc *corev3.HealthCheck) error {
	for _, d := range []*durationpb.Duration{hc.Timeout, hc.Interval, hc.NoTrafficInterval, hc.NoTrafficHealthyInterval} {
		if err := probe.CheckDuration(d.AsDuration()); err != nil {
			return err
		}
	}
	for _, n := range []*wrapperspb.UInt32Value{hc.HealthyThreshold, hc.UnhealthyThreshold} {
		if err := probe.CheckThreshold(int(n.GetValue())); err != nil {
			return err
		}
	}
	switch k := hc.HealthChecker.(type) {
	case *corev3.HealthCheck_TcpHealthCheck_:
		return nil
	case *corev3.HealthCheck_HttpHealthCheck_:
		return guardHTTP(k.HttpHealthCheck)
	}
	return fmt.Errorf("health checker %T cannot be asked of an Envoy over HDS", hc.HealthChecker)
}

func guardHTTP(h *corev3.HealthCheck_HttpHealthCheck) error {
	if err := probe.CheckPath(h.Path); err != nil {
		return err
	}
	if err := probe.CheckHost(h.Host); err != nil {
		return err
	}
	if err := probe.CheckMethod(h.Method.String()); err != nil {
		return err
	}
	for _, r := range append(h.ExpectedStatuses, h.RetriableStatuses...) {
		if r.Start < 100 || r.Start >= r.End || r.End > 600 {
			return fmt.Errorf("statuses [%d, %d) are not within 100 to 599", r.Start, r.End)
		}
	}
	if h.Send != nil || len(h.Receive) > 0 || len(h.RequestHeadersToAdd) > 0 {
		return fmt.Errorf("payloads and headers are not sent by this version")
	}
	return nil
}

// specifier puts clusters together. The report interval is bounded by the
// config: under a millisecond a running Envoy would flood (facts/envoy-hds.md
// 0.8).
func specifier(clusters []*healthv3.ClusterHealthCheck, interval time.Duration) *healthv3.HealthCheckSpecifier {
	return &healthv3.HealthCheckSpecifier{ClusterHealthChecks: clusters, Interval: durationpb.New(interval)}
}
