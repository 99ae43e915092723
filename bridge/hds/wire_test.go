package hds

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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
