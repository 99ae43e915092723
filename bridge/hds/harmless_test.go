package hds

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
)

// harmless says whether a cluster is within the bounds of what may be sent,
// written down a second time, from the documentation (docs/safety.md) and not
// from the code.
func harmless(c *healthv3.ClusterHealthCheck) error {
	if c.GetClusterName() == "" || len(c.GetHealthChecks()) != 1 || len(c.GetLocalityEndpoints()) != 1 || len(c.GetLocalityEndpoints()[0].GetEndpoints()) != 1 {
		return errors.New("not one of each")
	}
	hc := c.GetHealthChecks()[0]
	for _, d := range []time.Duration{hc.GetInterval().AsDuration(), hc.GetTimeout().AsDuration(), hc.GetNoTrafficInterval().AsDuration()} {
		if d < 100*time.Millisecond || d > time.Hour {
			return fmt.Errorf("a time of %s", d)
		}
	}
	for _, n := range []uint32{hc.GetHealthyThreshold().GetValue(), hc.GetUnhealthyThreshold().GetValue()} {
		if n < 1 || n > 1000 {
			return fmt.Errorf("a threshold of %d", n)
		}
	}
	if hc.GetGrpcHealthCheck() != nil || hc.GetCustomHealthCheck() != nil {
		return errors.New("a check that is never run")
	}
	return errors.Join(
		harmlessAddress(c.GetLocalityEndpoints()[0].GetEndpoints()[0].GetAddress()),
		harmlessHTTP(hc.GetHttpHealthCheck()),
		harmlessPayloads(hc.GetTcpHealthCheck().GetSend(), hc.GetTcpHealthCheck().GetReceive()),
	)
}

func harmlessAddress(a *corev3.Address) error {
	if p := a.GetPipe().GetPath(); p != "" {
		if len(p) > 107 || !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.Contains(p, "\x00") {
			return fmt.Errorf("the socket %q", p)
		}
		return nil
	}
	ip, err := netip.ParseAddr(a.GetSocketAddress().GetAddress())
	port := a.GetSocketAddress().GetPortValue()
	if err != nil || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || port < 1 || port > 65535 {
		return fmt.Errorf("the address %s", a)
	}
	return nil
}

func harmlessHTTP(h *corev3.HealthCheck_HttpHealthCheck) error {
	if h == nil {
		return nil
	}
	method := h.GetMethod().String()
	body := strings.Contains(" POST PUT PATCH OPTIONS ", " "+method+" ")
	switch {
	case len(h.GetPath()) > 4096 || !strings.HasPrefix(h.GetPath(), "/") || strings.ContainsFunc(h.GetPath(), func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }):
		return fmt.Errorf("the path %q", h.GetPath())
	case h.GetHost() == "" || len(h.GetHost()) > 255 || strings.ContainsFunc(h.GetHost(), func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("the host %q", h.GetHost())
	case !body && !strings.Contains(" GET HEAD DELETE TRACE ", " "+method+" "):
		return fmt.Errorf("the method %s", method)
	case !body && h.GetSend() != nil:
		return fmt.Errorf("a body with %s", method)
	}
	for _, r := range append(h.GetExpectedStatuses(), h.GetRetriableStatuses()...) {
		if r.GetStart() < 100 || r.GetEnd() > 600 || r.GetStart() >= r.GetEnd() {
			return fmt.Errorf("the statuses %s", r)
		}
	}
	for _, o := range h.GetRequestHeadersToAdd() {
		if name := strings.ToLower(o.GetHeader().GetKey()); name == "" || name == "host" || name[0] == ':' || strings.ContainsAny(name, "\r\n\x00 ") {
			return fmt.Errorf("the header %q", name)
		}
		if v := strings.ReplaceAll(o.GetHeader().GetValue(), "%%", ""); strings.ContainsAny(v, "%\r\n\x00") {
			return fmt.Errorf("the value %q", v)
		}
	}
	sum := 0
	for _, p := range h.GetReceive() {
		sum += len(p.GetText()) / 2
	}
	if sum > 1024 {
		return fmt.Errorf("%d bytes to look for", sum)
	}
	return harmlessPayloads(h.GetSend(), h.GetReceive())
}

func harmlessPayloads(send *corev3.HealthCheck_Payload, receive []*corev3.HealthCheck_Payload) error {
	for _, p := range append(receive, send) {
		if p == nil {
			continue
		}
		if b, err := hex.DecodeString(p.GetText()); err != nil || len(b) == 0 {
			return fmt.Errorf("the payload %s", p)
		}
	}
	return nil
}
