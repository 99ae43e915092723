package hds

import (
	"errors"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The fields of a report that matter, by their numbers in hds.proto.
const (
	fieldRequest  = 1 // of HealthCheckRequestOrEndpointHealthResponse
	fieldResponse = 2
	fieldClusters = 2 // of EndpointHealthResponse: cluster_endpoints_health
	fieldName     = 1 // of ClusterEndpointsHealth
)

var (
	errWire    = errors.New("it is no protobuf message")
	errRequest = errors.New("a second health check request on one stream")
)

// report is what a report says of the clusters that were asked for.
type report struct {
	// sightings are what it says, by cluster; a cluster is in it with answers false
	// if it says nothing that can be understood.
	sightings map[string]wired
	// others is how many more clusters it holds.
	others int
}

type wired struct {
	sighting
	answers bool
}

// readReport reads a report on the wire, and decodes of it only the clusters
// that are wanted: whatever a liar sends costs no more memory than it takes to
// receive it, and the flat list that Envoy sends along is passed over.
func readReport(b []byte, wanted func(cluster string) bool) (report, error) {
	r := report{sightings: map[string]wired{}}
	err := fields(b, func(number protowire.Number, value []byte) error {
		switch number {
		case fieldRequest:
			return errRequest
		case fieldResponse:
			return fields(value, func(number protowire.Number, value []byte) error {
				if number != fieldClusters {
					return nil
				}
				return r.add(value, wanted)
			})
		}
		return nil
	})
	return r, err
}

// add takes one cluster of a report in.
func (r *report) add(b []byte, wanted func(string) bool) error {
	name := ""
	if err := fields(b, func(number protowire.Number, value []byte) error {
		if number == fieldName {
			name = string(value)
		}
		return nil
	}); err != nil {
		return err
	}
	if !wanted(name) {
		r.others++
		return nil
	}
	var c healthv3.ClusterEndpointsHealth
	if err := proto.Unmarshal(b, &c); err != nil {
		return err
	}
	got, ok := single(&c)
	r.sightings[name] = wired{got, ok && isAnswer(got.status)}
	return nil
}

// fields calls f for each length-delimited field of a message.
func fields(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return errWire
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(number, value); err != nil {
			return err
		}
	}
	return nil
}
