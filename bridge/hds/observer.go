package hds

import (
	"cmp"
	"fmt"
	"math"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// identity is what is kept of the node in an Envoy's first message, which is
// 60 kB long (facts/envoy-hds.md 0.20).
type identity struct {
	// id is the node's. The namespace and the partition are those that its metadata
	// names, empty if it names none.
	id, namespace, partition string
	// version is Envoy's, empty when it did not say.
	version string
	// codes says that this Envoy's HTTP status codes can be trusted; grpc that it
	// is known to answer the request that stands for a gRPC check.
	codes, grpc bool
}

// grpcSince is the oldest Envoy on which gRPC probes were seen to work
// (facts/envoy-hds.md 0.11).
var grpcSince = [3]uint32{1, 36, 0}

// fits says whether this Envoy can run a probe.
func (id identity) fits(p *probe.Probe) error {
	if p.Settings.Kind == probe.GRPC && !id.grpc {
		return fmt.Errorf("grpc probes need Envoy 1.36 or newer, and this one is %s", cmp.Or(id.version, "of an unknown version"))
	}
	return nil
}

// codesSince is the Envoy that first told no stale status codes
// (facts/envoy-hds.md 0.18, 0.31).
var codesSince = [3]uint32{1, 39, 3}

// newIdentity keeps of a node what the bridge decides by.
func newIdentity(n *corev3.Node) identity {
	meta := n.GetMetadata().GetFields()
	id := identity{id: n.GetId(), namespace: meta["namespace"].GetStringValue(), partition: meta["partition"].GetStringValue()}
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		id.version = fmt.Sprintf("%d.%d.%d", v.MajorNumber, v.MinorNumber, v.Patch)
		id.codes, id.grpc = !before(v, codesSince), !before(v, grpcSince)
	}
	return id
}

func before(v *typev3.SemanticVersion, w [3]uint32) bool {
	for i, n := range [3]uint32{v.MajorNumber, v.MinorNumber, v.Patch} {
		if n != w[i] {
			return n < w[i]
		}
	}
	return false
}

// sighting is what one report says of one of our clusters.
type sighting struct {
	status corev3.HealthStatus
	code   uint16
}

// single reads the one endpoint that a cluster of ours has. Another number of
// them is no answer.
func single(c *healthv3.ClusterEndpointsHealth) (sighting, bool) {
	if len(c.LocalityEndpointsHealth) != 1 || len(c.LocalityEndpointsHealth[0].EndpointsHealth) != 1 {
		return sighting{}, false
	}
	e := c.LocalityEndpointsHealth[0].EndpointsHealth[0]
	return sighting{status: e.HealthStatus, code: statusCode(e.HealthMetadata)}, true
}

// statusCode reads the HTTP status code of an endpoint's metadata; 0 when there
// is none that could be one.
func statusCode(m *structpb.Struct) uint16 {
	n := m.GetFields()["http_status_code"].GetNumberValue()
	if n < 100 || n > 599 || n != math.Trunc(n) {
		return 0
	}
	return uint16(n)
}

// isAnswer says whether a status says anything of the endpoint.
func isAnswer(s corev3.HealthStatus) bool {
	switch s {
	case corev3.HealthStatus_HEALTHY, corev3.HealthStatus_UNHEALTHY, corev3.HealthStatus_TIMEOUT, corev3.HealthStatus_DEGRADED:
		return true
	}
	return false
}
