package hds

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// The fields of an echo, by their numbers in hds.proto, base.proto and
// endpoint_components.proto.
const (
	fieldPlace     = 1 // of LocalityEndpointsHealth: locality
	fieldEndpoints = 2 // of LocalityEndpointsHealth: endpoints_health
	fieldEndpoint  = 1 // of EndpointHealth
	fieldStatus    = 2 // of EndpointHealth: health_status
	fieldMetadata  = 3 // of EndpointHealth: health_metadata
	fieldAddress   = 1 // of Endpoint
)

// answered200 is the metadata of an endpoint that has answered HTTP 200.
var answered200 = mustMarshal(&structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(200)}})

// appendEcho appends what a report says of the cluster of a probe, as it is on the
// wire, if its endpoint is healthy.
func appendEcho(b []byte, p *probe.Probe) []byte {
	address := mustMarshal(buildAddress(p.Target))
	health := appendBytes(nil, fieldEndpoint, appendBytes(nil, fieldAddress, address))
	health = protowire.AppendTag(health, fieldStatus, protowire.VarintType)
	health = protowire.AppendVarint(health, uint64(corev3.HealthStatus_HEALTHY))
	if p.Settings.Kind != probe.TCP {
		health = appendBytes(health, fieldMetadata, answered200)
	}
	locality := appendBytes(appendBytes(nil, fieldPlace, nil), fieldEndpoints, health)
	cluster := appendBytes(appendBytes(nil, fieldName, []byte(p.Cluster)), fieldLocality, locality)
	return appendBytes(b, fieldClusters, cluster)
}

func appendBytes(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// mustMarshal encodes a message that is known to be fit for it.
func mustMarshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encoding %s: %v", m.ProtoReflect().Descriptor().Name(), err))
	}
	return b
}
