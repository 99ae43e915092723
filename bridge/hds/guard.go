package hds

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// maxReceive is how many bytes HTTP payloads may have in sum (facts/envoy-hds.md
// 0b).
const maxReceive = 1024

// guard is the last look at a built cluster before it is sent: what would crash
// an Envoy, or make it refuse the whole specifier, must not get past it, even
// when the probe's own validation failed to see it.
func guard(c *healthv3.ClusterHealthCheck) error {
	if err := c.ValidateAll(); err != nil {
		return err
	}
	if len(c.HealthChecks) != 1 || len(c.LocalityEndpoints) != 1 || len(c.LocalityEndpoints[0].Endpoints) != 1 {
		return errors.New("not one health check and one endpoint")
	}
	if c.ClusterName == "" {
		return errors.New("no cluster name")
	}
	return errors.Join(
		guardAddress(c.LocalityEndpoints[0].Endpoints[0].GetAddress()),
		guardTLS(c.TransportSocketMatches),
		guardCheck(c.HealthChecks[0]),
	)
}

func guardAddress(a *corev3.Address) error {
	if p := a.GetPipe(); p != nil {
		return probe.CheckSocket(p.Path)
	}
	s := a.GetSocketAddress()
	if s == nil {
		return errors.New("no address")
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
		return guardPayloads(append(k.TcpHealthCheck.Receive, present(k.TcpHealthCheck.Send)...))
	case *corev3.HealthCheck_HttpHealthCheck_:
		return guardHTTP(k.HttpHealthCheck)
	}
	return fmt.Errorf("health checker %T cannot be asked of an Envoy over HDS", hc.HealthChecker)
}

func guardHTTP(h *corev3.HealthCheck_HttpHealthCheck) error {
	return errors.Join(
		probe.CheckPath(h.Path),
		probe.CheckHost(h.Host),
		probe.CheckMethod(h.Method.String()),
		guardStatuses(h.ExpectedStatuses),
		guardStatuses(h.RetriableStatuses),
		guardHeaders(h.RequestHeadersToAdd),
		guardCodec(h.CodecClientType),
		guardBody(h),
	)
}

func guardStatuses(ranges []*typev3.Int64Range) error {
	for _, r := range ranges {
		if r.Start < 100 || r.Start >= r.End || r.End > 600 {
			return fmt.Errorf("statuses [%d, %d) are not within 100 to 599", r.Start, r.End)
		}
	}
	return nil
}

// guardHeaders looks for names that crash an Envoy or are none, and for values that are
// still format strings.
func guardHeaders(headers []*corev3.HeaderValueOption) error {
	for _, h := range headers {
		name, value := h.GetHeader().GetKey(), h.GetHeader().GetValue()
		if strings.EqualFold(name, "host") {
			return fmt.Errorf("header %q would crash it", name)
		}
		if strings.Contains(strings.ReplaceAll(value, "%%", ""), "%") {
			return fmt.Errorf("the value of header %q would crash it", name)
		}
		if err := probe.CheckHeader(name, strings.ReplaceAll(value, "%%", "%")); err != nil {
			return err
		}
	}
	return nil
}

func guardCodec(c typev3.CodecClientType) error {
	if c != typev3.CodecClientType_HTTP1 && c != typev3.CodecClientType_HTTP2 {
		return fmt.Errorf("codec %s", c)
	}
	return nil
}

func guardBody(h *corev3.HealthCheck_HttpHealthCheck) error {
	if h.Send != nil {
		s := probe.Settings{Kind: probe.HTTP, Method: h.Method.String(), Body: "x"}
		if err := probe.CheckPayloads(s); err != nil {
			return err
		}
	}
	sum := 0
	for _, p := range h.Receive {
		sum += len(p.GetText()) / 2
	}
	if sum > maxReceive {
		return fmt.Errorf("payloads of %d bytes to look for", sum)
	}
	return guardPayloads(append(h.Receive, present(h.Send)...))
}

// present lists a payload if there is one.
func present(p *corev3.HealthCheck_Payload) []*corev3.HealthCheck_Payload {
	if p == nil {
		return nil
	}
	return []*corev3.HealthCheck_Payload{p}
}

func guardPayloads(list []*corev3.HealthCheck_Payload) error {
	for _, p := range list {
		if b, err := hex.DecodeString(p.GetText()); err != nil || len(b) == 0 {
			return errors.New("a payload is not in hex")
		}
	}
	return nil
}
