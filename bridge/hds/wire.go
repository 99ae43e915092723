package hds

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The fields of messages that matter, by their numbers in hds.proto and base.proto.
const (
	fieldRequest  = 1 // of HealthCheckRequestOrEndpointHealthResponse
	fieldResponse = 2
	fieldClusters = 2 // of EndpointHealthResponse: cluster_endpoints_health
	fieldName     = 1 // of ClusterEndpointsHealth
	fieldLocality = 2 // of ClusterEndpointsHealth: locality_endpoints_health
	fieldNode     = 1 // of HealthCheckRequest

	fieldExtensions = 9 // of Node
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
	// repeats says that it holds a cluster that was asked for more than once; the
	// last one counts.
	repeats bool
	// partial says that the report names the clusters that the one before it did,
	// and that sightings are only those that differ.
	partial bool
}

type wired struct {
	sighting
	answers bool
}

// readNode decodes the node of a health check request on the wire, and passes its
// extensions over: they are nearly all of the message, and nobody asks for them. A
// message without a node has an empty one.
func readNode(b []byte) (*corev3.Node, error) {
	var kept []byte
	err := fields(b, func(number protowire.Number, request []byte) error {
		if number == fieldResponse {
			kept = nil // of the two a message is the one that comes last
		}
		if number != fieldRequest {
			return nil
		}
		return fields(request, func(number protowire.Number, node []byte) error {
			if number != fieldNode {
				return nil
			}
			return fields(node, func(number protowire.Number, value []byte) error {
				if number != fieldExtensions {
					kept = protowire.AppendTag(kept, number, protowire.BytesType)
					kept = protowire.AppendBytes(kept, value)
				}
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	node := &corev3.Node{}
	return node, proto.Unmarshal(kept, node)
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
	name, err := nameOf(b)
	if err != nil {
		return err
	}
	if !wanted(name) {
		r.others++
		return nil
	}
	got, err := readCluster(b)
	if err != nil {
		return err
	}
	_, again := r.sightings[name]
	r.sightings[name], r.repeats = got, r.repeats || again
	return nil
}

// nameOf is the name of one cluster of a report.
func nameOf(b []byte) (name string, err error) {
	err = fields(b, func(number protowire.Number, value []byte) error {
		if number == fieldName {
			name = string(value)
		}
		return nil
	})
	return name, err
}

// readCluster decodes one cluster of a report.
func readCluster(b []byte) (wired, error) {
	var c healthv3.ClusterEndpointsHealth
	if err := proto.Unmarshal(b, &c); err != nil {
		return wired{}, err
	}
	got, ok := single(&c)
	return wired{got, ok && isAnswer(got.status)}, nil
}

// fields calls f for each length-delimited field of a message.
func fields(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		var one field
		var err error
		if one, b, err = next(b); err != nil {
			return err
		}
		if one.kind != protowire.BytesType {
			continue
		}
		if err := f(one.number, one.value); err != nil {
			return err
		}
	}
	return nil
}

// field is one field of a message; value is empty unless it is length-delimited.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  []byte
}

// next takes the first field off a message that is not empty.
func next(b []byte) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, errWire
	}
	b = b[n:]
	f = field{number: number, kind: kind}
	if kind == protowire.BytesType {
		f.value, n = protowire.ConsumeBytes(b)
	} else {
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return f, nil, errWire
	}
	return f, b[n:], nil
}
