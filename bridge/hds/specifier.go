package hds

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	grpchealth "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// buildCluster makes the HDS cluster of a probe: one endpoint, one health check.
// Several checks in a cluster would overwrite one another's results
// (facts/envoy-hds.md 0.12).
func buildCluster(p *probe.Probe) (*healthv3.ClusterHealthCheck, error) {
	matches, err := buildTLS(p)
	if err != nil {
		return nil, err
	}
	return &healthv3.ClusterHealthCheck{
		ClusterName:  p.Cluster,
		HealthChecks: []*corev3.HealthCheck{buildCheck(p)},
		LocalityEndpoints: []*healthv3.LocalityEndpoints{{
			Locality:  &corev3.Locality{},
			Endpoints: []*endpointv3.Endpoint{{Address: buildAddress(p.Target)}},
		}},
		TransportSocketMatches: matches,
	}, nil
}

// buildCheck makes the health check of a probe. HDS clusters carry no traffic,
// so the no-traffic intervals are those that apply, and their default is a
// minute (facts/envoy-hds.md 4.2). A new connection for each probe keeps an app
// that closes idle ones from failing them (0c); gRPC keeps its own, as its
// clients do.
func buildCheck(p *probe.Probe) *corev3.HealthCheck {
	s := p.Settings
	interval := durationpb.New(s.Interval)
	hc := &corev3.HealthCheck{
		Timeout:                  durationpb.New(s.Timeout),
		Interval:                 interval,
		NoTrafficInterval:        interval,
		NoTrafficHealthyInterval: interval,
		IntervalJitterPercent:    probe.JitterPercent,
		HealthyThreshold:         wrapperspb.UInt32(uint32(s.HealthyThreshold)),
		UnhealthyThreshold:       wrapperspb.UInt32(uint32(s.UnhealthyThreshold)),
		ReuseConnection:          wrapperspb.Bool(s.Kind == probe.GRPC),
	}
	switch s.Kind {
	case probe.HTTP:
		hc.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: buildHTTP(s)}
	case probe.GRPC:
		hc.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: buildGRPC(s)}
	case probe.TCP:
		hc.HealthChecker = &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: buildTCP(s)}
	}
	return hc
}

// anyStatus makes every status count against the unhealthy threshold: one that
// is not retriable would skip it (facts/envoy-hds.md 0.30).
func anyStatus() []*typev3.Int64Range { return []*typev3.Int64Range{{Start: 100, End: 600}} }

func buildHTTP(s probe.Settings) *corev3.HealthCheck_HttpHealthCheck {
	h := &corev3.HealthCheck_HttpHealthCheck{
		Host:                s.Host,
		Path:                s.Path,
		Method:              corev3.RequestMethod(corev3.RequestMethod_value[s.Method]),
		CodecClientType:     typev3.CodecClientType_HTTP1,
		RetriableStatuses:   anyStatus(),
		RequestHeadersToAdd: buildHeaders(s.Headers),
		Receive:             payloads(s.Receive),
	}
	if s.HTTP2 {
		h.CodecClientType = typev3.CodecClientType_HTTP2
	}
	if s.Body != "" {
		h.Send = payload(s.Body)
	}
	for _, r := range s.ExpectedStatuses {
		h.ExpectedStatuses = append(h.ExpectedStatuses, &typev3.Int64Range{Start: int64(r.First), End: int64(r.Last) + 1})
	}
	return h
}

// buildHeaders makes the headers to add, in order of name. Envoy reads values as
// format strings: a bare % is its death, and %ENVIRONMENT(X)% would send its
// environment to the app (facts/envoy-hds.md 0.26, 0b). Values are therefore
// escaped. The first value of a name replaces what Envoy would send of itself.
func buildHeaders(headers map[string][]string) (out []*corev3.HeaderValueOption) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		for _, v := range headers[name] {
			out = append(out, &corev3.HeaderValueOption{
				Header:         &corev3.HeaderValue{Key: name, Value: strings.ReplaceAll(v, "%", "%%")},
				AppendAction:   action,
				KeepEmptyValue: true,
			})
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
	}
	return out
}

// buildGRPC asks the standard health service by an HTTP/2 request with the
// framed message as its body, and looks for the framed answer SERVING: Envoy
// cannot be asked for a gRPC check over HDS (envoy #34570, facts/envoy-hds.md
// 0.11).
func buildGRPC(s probe.Settings) *corev3.HealthCheck_HttpHealthCheck {
	return &corev3.HealthCheck_HttpHealthCheck{
		Host:              s.Host,
		Path:              grpchealth.Health_Check_FullMethodName,
		Method:            corev3.RequestMethod_POST,
		CodecClientType:   typev3.CodecClientType_HTTP2,
		ExpectedStatuses:  []*typev3.Int64Range{{Start: 200, End: 201}},
		RetriableStatuses: anyStatus(),
		RequestHeadersToAdd: buildHeaders(map[string][]string{
			"content-type": {"application/grpc"}, "te": {"trailers"},
		}),
		Send:    payload(framed(&grpchealth.HealthCheckRequest{Service: s.GRPCService})),
		Receive: payloads([]probe.Payload{framed(&grpchealth.HealthCheckResponse{Status: grpchealth.HealthCheckResponse_SERVING})}),
	}
}

// framed is a message as gRPC puts it on the wire: a byte that says it is not
// compressed, four with its length, and the message.
func framed(m proto.Message) probe.Payload {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("the service's name is valid UTF-8, yet: %v", err))
	}
	return probe.Payload(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...))
}

func buildTCP(s probe.Settings) *corev3.HealthCheck_TcpHealthCheck {
	t := &corev3.HealthCheck_TcpHealthCheck{Receive: payloads(s.Receive)}
	if s.Send != "" {
		t.Send = payload(s.Send)
	}
	return t
}

// payload is always sent in hex: other text than hex would be Envoy's death
// (facts/envoy-hds.md 0b).
func payload(p probe.Payload) *corev3.HealthCheck_Payload {
	return &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: hex.EncodeToString([]byte(p))}}
}

func payloads(ps []probe.Payload) (out []*corev3.HealthCheck_Payload) {
	for _, p := range ps {
		out = append(out, payload(p))
	}
	return out
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

// specifier puts clusters together. The report interval is bounded by the
// config: under a millisecond a running Envoy would flood (facts/envoy-hds.md
// 0.8).
func specifier(clusters []*healthv3.ClusterHealthCheck, interval time.Duration) *healthv3.HealthCheckSpecifier {
	return &healthv3.HealthCheckSpecifier{ClusterHealthChecks: clusters, Interval: durationpb.New(interval)}
}
