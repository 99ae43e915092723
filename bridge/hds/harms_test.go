package hds

import (
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type cluster = healthv3.ClusterHealthCheck

// harms are what crashes an Envoy, wedges it or makes it refuse the whole
// specifier (facts/envoy-hds.md 0 and 0b).
func harms() map[string]func(*cluster) {
	out := map[string]func(*cluster){
		"no cluster name":    func(c *cluster) { c.ClusterName = "" },
		"no locality":        func(c *cluster) { c.LocalityEndpoints = nil },
		"no endpoint":        func(c *cluster) { c.LocalityEndpoints[0].Endpoints = nil },
		"two endpoints":      func(c *cluster) { e := c.LocalityEndpoints[0]; e.Endpoints = append(e.Endpoints, e.Endpoints[0]) },
		"no address":         func(c *cluster) { c.LocalityEndpoints[0].Endpoints[0].Address = nil },
		"disabled endpoint":  func(c *cluster) { c.LocalityEndpoints[0].Endpoints[0] = &endpointv3.Endpoint{} },
		"no check":           func(c *cluster) { c.HealthChecks = nil },
		"two checks":         func(c *cluster) { c.HealthChecks = append(c.HealthChecks, c.HealthChecks[0]) },
		"no interval":        func(c *cluster) { c.HealthChecks[0].Interval = nil },
		"no-traffic unset":   func(c *cluster) { c.HealthChecks[0].NoTrafficInterval = nil },
		"healthy unset":      func(c *cluster) { c.HealthChecks[0].NoTrafficHealthyInterval = nil },
		"negative timeout":   func(c *cluster) { c.HealthChecks[0].Timeout = durationpb.New(-1) },
		"tiny interval":      func(c *cluster) { c.HealthChecks[0].NoTrafficInterval = durationpb.New(1e6) },
		"no threshold":       func(c *cluster) { c.HealthChecks[0].HealthyThreshold = nil },
		"threshold zero":     func(c *cluster) { c.HealthChecks[0].UnhealthyThreshold = wrapperspb.UInt32(0) },
		"threshold for ever": func(c *cluster) { c.HealthChecks[0].UnhealthyThreshold = wrapperspb.UInt32(1<<32 - 1) },
		"no checker":         func(c *cluster) { c.HealthChecks[0].HealthChecker = nil },
		"native gRPC": func(c *cluster) {
			c.HealthChecks[0].HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{}}
		},
		"tls by path": func(c *cluster) {
			setTLS(c, &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: "/x"}}, "")
		},
		"tls without a CA":  func(c *cluster) { setTLS(c, nil, "") },
		"tls name too long": func(c *cluster) { setTLS(c, inline([]byte("x")), strings.Repeat("a", 256)) },
		"tls twice": func(c *cluster) {
			c.TransportSocketMatches = append(c.TransportSocketMatches, c.TransportSocketMatches[0])
		},
		"tls without config": func(c *cluster) { c.TransportSocketMatches[0].TransportSocket.ConfigType = nil },
	}
	for _, a := range []string{"app.local", "", "[::1]", "127.1", "0177.0.0.1", "::1%lo", "::ffff:127.0.0.1", "0.0.0.0", "127.0.0.1:80"} {
		out["address "+a] = func(c *cluster) { socketOf(c).Address = a }
	}
	for _, p := range []uint32{0, 65536} {
		out["port"+string(rune('0'+p%7))] = func(c *cluster) { socketOf(c).PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: p} }
	}
	for _, p := range []string{"relative", "/" + strings.Repeat("a", 107), "/a\x00b"} {
		out["pipe "+p[:3]] = func(c *cluster) {
			c.LocalityEndpoints[0].Endpoints[0].Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: p}}}
		}
	}
	for name, harm := range httpHarms() {
		out["http "+name] = func(c *cluster) { harm(c.HealthChecks[0].GetHttpHealthCheck()) }
	}
	return out
}

func httpHarms() map[string]func(*corev3.HealthCheck_HttpHealthCheck) {
	type http = corev3.HealthCheck_HttpHealthCheck
	text := func(s string) *corev3.HealthCheck_Payload {
		return &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: s}}
	}
	statuses := func(start, end int64) func(*http) {
		return func(h *http) { h.ExpectedStatuses = []*typev3.Int64Range{{Start: start, End: end}} }
	}
	return map[string]func(*http){
		"empty path":      func(h *http) { h.Path = "" },
		"path CRLF":       func(h *http) { h.Path = "/\r\n" },
		"empty host":      func(h *http) { h.Host = "" },
		"host CRLF":       func(h *http) { h.Host = "a\r\nb" },
		"CONNECT":         func(h *http) { h.Method = corev3.RequestMethod_CONNECT },
		"unknown method":  func(h *http) { h.Method = 99 },
		"HTTP/3":          func(h *http) { h.CodecClientType = typev3.CodecClientType_HTTP3 },
		"GET with a body": func(h *http) { h.Send = text("00") },
		"odd hex":         func(h *http) { h.Method, h.Send = corev3.RequestMethod_POST, text("0") },
		"0x hex":          func(h *http) { h.Receive = []*corev3.HealthCheck_Payload{text("0x00")} },
		"no hex":          func(h *http) { h.Receive = []*corev3.HealthCheck_Payload{text("ok")} },
		"empty payload":   func(h *http) { h.Receive = []*corev3.HealthCheck_Payload{text("")} },
		"long payloads": func(h *http) {
			h.Receive = []*corev3.HealthCheck_Payload{text(strings.Repeat("00", 1000)), text(strings.Repeat("00", 25))}
		},
		"statuses turned": statuses(300, 200),
		"statuses empty":  statuses(200, 200),
		"statuses low":    statuses(99, 200),
		"statuses high":   statuses(200, 601),
		"header host":     func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("Host", "x")} },
		"pseudo header":   func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf(":path", "x")} },
		"no header name":  func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("", "x")} },
		"format string":   func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("x", "100%")} },
		"odd percents":    func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("x", "%%%")} },
		"header CRLF":     func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("x", "a\r\nb")} },
		"header name":     func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("x y", "z")} },
		"header control":  func(h *http) { h.RequestHeadersToAdd = []*corev3.HeaderValueOption{hostOf("x", "a\x01b")} },
	}
}

func socketOf(c *cluster) *corev3.SocketAddress {
	return c.LocalityEndpoints[0].Endpoints[0].Address.GetSocketAddress()
}

// setTLS replaces the TLS of a cluster by one with this CA and name.
func setTLS(c *cluster, ca *corev3.DataSource, name string) {
	ctx := &tlsv3.UpstreamTlsContext{Sni: name, CommonTlsContext: &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: ca}},
	}}
	config, err := anypb.New(ctx)
	if err != nil {
		panic(err)
	}
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{Match: &structpb.Struct{}, TransportSocket: &corev3.TransportSocket{
		Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
	}}}
}
