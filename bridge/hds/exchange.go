package hds

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// secret stands for what is not shown.
const secret = "(hidden)"

// Exchange is what was said last on a stream, for people.
type Exchange struct {
	Stream
	// Specifier is the newest one, nil before the first; private keys, header
	// values and payloads are hidden in it. Sent is when it went out.
	Specifier *healthv3.HealthCheckSpecifier
	Sent      time.Time
	// Report is the newest report, nil before the first.
	Report *healthv3.HealthCheckRequestOrEndpointHealthResponse
}

// Exchange tells what was said last on the newest stream of an Envoy; false
// without one. A report that cannot be decoded is an error.
func (s *Server) Exchange(nodeID string) (Exchange, bool, error) {
	var newest *session
	for _, o := range s.all() {
		if o.session.identity.id == nodeID {
			newest = o.session
		}
	}
	if newest == nil {
		return Exchange{}, false, nil
	}
	e, err := newest.exchange()
	return e, true, err
}

func (s *session) exchange() (Exchange, error) {
	e := Exchange{Stream: s.info()}
	s.mu.Lock()
	e.Sent = s.sent
	specified, interval, probes := s.specified(), s.interval, s.asked.probes
	s.mu.Unlock()
	if specified {
		clusters, err := shown(probes)
		if err != nil {
			return e, err
		}
		e.Specifier = specifier(clusters, interval)
	}
	if e.LastReport.IsZero() {
		return e, nil
	}
	e.Report = &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	if err := proto.Unmarshal(s.frame.newest(), e.Report); err != nil {
		return e, fmt.Errorf("decoding the newest report: %w", err)
	}
	return e, nil
}

// shown are the clusters of probes as people see them. They are made anew: a
// probe's cluster is always the same.
func shown(probes []*probe.Probe) ([]*healthv3.ClusterHealthCheck, error) {
	out := make([]*healthv3.ClusterHealthCheck, len(probes))
	for i, p := range probes {
		var err error
		if out[i], err = guarded(p); err != nil {
			return nil, err
		}
		if err := hide(out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hide takes out of a cluster what nobody is to see.
func hide(c *healthv3.ClusterHealthCheck) error {
	for _, check := range c.GetHealthChecks() {
		for _, h := range check.GetHttpHealthCheck().GetRequestHeadersToAdd() {
			h.Header.Value = secret
		}
		for _, p := range []*corev3.HealthCheck_Payload{check.GetHttpHealthCheck().GetSend(), check.GetTcpHealthCheck().GetSend()} {
			if p != nil {
				p.Payload = &corev3.HealthCheck_Payload_Text{Text: secret}
			}
		}
	}
	for _, m := range c.GetTransportSocketMatches() {
		if err := hideKeys(m); err != nil {
			return err
		}
	}
	return nil
}

func hideKeys(m *clusterv3.Cluster_TransportSocketMatch) error {
	var ctx tlsv3.UpstreamTlsContext
	config := m.GetTransportSocket().GetTypedConfig()
	if !config.MessageIs(&ctx) {
		return nil
	}
	if err := config.UnmarshalTo(&ctx); err != nil {
		return fmt.Errorf("decoding a transport socket: %w", err)
	}
	for _, c := range ctx.GetCommonTlsContext().GetTlsCertificates() {
		c.PrivateKey = inline([]byte(secret))
	}
	hidden, err := anypb.New(&ctx)
	if err != nil {
		return fmt.Errorf("encoding a transport socket: %w", err)
	}
	m.TransportSocket.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: hidden}
	return nil
}
