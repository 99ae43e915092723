package hds

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func nobody(string) bool { return false }

func TestOnlyWhatIsWantedIsDecoded(t *testing.T) {
	b, err := proto.Marshal(reportOf(echo{"a", up, 200}, echo{"b", down, 500}, echo{"c", up, 0}))
	require.NoError(t, err)
	r, err := readReport(b, func(name string) bool { return name == "b" || name == "missing" })
	require.NoError(t, err)
	assert.Equal(t, report{sightings: map[string]wired{"b": {sighting{down, 500}, true}}, others: 2}, r)
	r, err = readReport(nil, nobody)
	require.NoError(t, err)
	assert.Zero(t, r.others)
}

func TestAHugeReportCostsNoMemory(t *testing.T) {
	empty := bytes.Repeat([]byte{fieldClusters<<3 | 2, 0}, 1<<20)
	huge := protowire.AppendBytes(protowire.AppendTag(nil, fieldResponse, protowire.BytesType), empty)
	var r report
	var err error
	allocs := testing.AllocsPerRun(1, func() { r, err = readReport(huge, nobody) })
	require.NoError(t, err)
	assert.Equal(t, 1<<20, r.others)
	assert.Less(t, allocs, 1e6/10, "a million clusters of a liar are counted, not kept")
}

func TestReportsThatAreNone(t *testing.T) {
	for _, b := range [][]byte{{0xff}, {0x12, 0x05, 0x00}, {0x12, 0x02, 0x12, 0x05}, {0x0a, 0x00}, {0x0b}} {
		_, err := readReport(b, nobody)
		assert.Error(t, err, "%x", b)
	}
}

// TestTheNodeOfARequestIsReadWithoutItsExtensions: with them it is what protobuf
// itself reads.
func TestTheNodeOfARequestIsReadWithoutItsExtensions(t *testing.T) {
	m := requestOf("n1")
	n := m.GetHealthCheckRequest().GetNode()
	n.Extensions = []*corev3.Extension{{Name: "envoy.filters.http.router"}, {Name: "envoy.clusters.eds"}}
	got, err := readNode(bytesOf(t, m))
	require.NoError(t, err)
	want := proto.CloneOf(n)
	want.Extensions = nil
	assert.Empty(t, cmp.Diff(want, got, protocmp.Transform()))

	for name, m := range map[string]proto.Message{"nothing": reportOf(), "a report": reportOf(echo{"c", up, 0})} {
		got, err := readNode(bytesOf(t, m))
		require.NoError(t, err, name)
		assert.Zero(t, proto.Size(got), name)
	}
	both := append(bytesOf(t, m), bytesOf(t, reportOf(echo{"c", up, 0}))...)
	got, err = readNode(both)
	require.NoError(t, err)
	assert.Empty(t, got.GetId(), "a report that comes last is what the message is")
	_, err = readNode([]byte{0xff})
	assert.ErrorIs(t, err, errWire)
}
