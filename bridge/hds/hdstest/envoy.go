// Package hdstest says what an Envoy says: the messages of a simulated one, byte
// by byte as a real one sends them, for benchmarks and for the load tool, whose
// tests compare them with those of a real Envoy.
package hdstest

import (
	"bytes"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Endpoint is the one endpoint of a cluster, as a report shows it.
type Endpoint struct {
	Cluster string
	Address *corev3.Address
	Status  corev3.HealthStatus
	// Code is the HTTP status code; 0 is none.
	Code int
}

// Endpoints are n healthy endpoints that answer 200, in clusters whose names are
// as long as those of the daemon are.
func Endpoints(n int) []Endpoint {
	out := make([]Endpoint, n)
	for i := range out {
		out[i] = Endpoint{Cluster: fmt.Sprintf("hds:steady-%05d@0123abcd", i), Address: Address("127.0.0.1", 10000+i), Status: corev3.HealthStatus_HEALTHY, Code: 200}
	}
	return out
}

// Address is that of a TCP socket.
func Address(host string, port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// Asked are the endpoints of a specifier, healthy.
func Asked(spec *healthv3.HealthCheckSpecifier) []Endpoint {
	var out []Endpoint
	for _, c := range spec.GetClusterHealthChecks() {
		for _, l := range c.GetLocalityEndpoints() {
			for _, e := range l.GetEndpoints() {
				out = append(out, Endpoint{Cluster: c.GetClusterName(), Address: e.GetAddress(), Status: corev3.HealthStatus_HEALTHY, Code: 200})
			}
		}
	}
	return out
}

// Report is a report of these endpoints. Envoy says everything twice: in a flat
// list, and by cluster (facts/envoy-hds.md 0.21).
func Report(endpoints []Endpoint) ([]byte, error) {
	r := &healthv3.EndpointHealthResponse{}
	for _, e := range endpoints {
		h := &healthv3.EndpointHealth{Endpoint: &endpointv3.Endpoint{Address: e.Address}, HealthStatus: e.Status}
		if e.Code != 0 {
			h.HealthMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(float64(e.Code))}}
		}
		r.EndpointsHealth = append(r.EndpointsHealth, h)
		r.ClusterEndpointsHealth = append(r.ClusterEndpointsHealth, &healthv3.ClusterEndpointsHealth{
			ClusterName:             e.Cluster,
			LocalityEndpointsHealth: []*healthv3.LocalityEndpointsHealth{{Locality: &corev3.Locality{}, EndpointsHealth: []*healthv3.EndpointHealth{h}}},
		})
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: r},
	})
}

// extensions is how many an Envoy names in its first message, which are most of
// its 61 kB (facts/envoy-hds.md 0.20).
const extensions = 516

// Hello is the first message of the Envoy of that id.
func Hello(id string) ([]byte, error) {
	node := &corev3.Node{
		Id: id, Cluster: "simulated", UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}},
	}
	for i := range extensions {
		node.Extensions = append(node.Extensions, &corev3.Extension{
			Name: fmt.Sprintf("envoy.filters.simulated.%03d", i), Category: "envoy.filters.http",
			TypeUrls: []string{"envoy.extensions.filters.http.simulated.v3." + string(bytes.Repeat([]byte{'x'}, 20))},
		})
	}
	return proto.Marshal(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &healthv3.HealthCheckRequest{Node: node, Capability: &healthv3.Capability{
				HealthCheckProtocols: []healthv3.Capability_Protocol{healthv3.Capability_HTTP, healthv3.Capability_TCP},
			}},
		},
	})
}
