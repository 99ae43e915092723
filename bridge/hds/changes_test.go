package hds

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

func everybody(string) bool { return true }

func TestOfTheNextReportOnlyWhatChangesIsDecoded(t *testing.T) {
	endpoints := hdstest.Endpoints(1000)
	before, err := hdstest.Report(endpoints)
	require.NoError(t, err)
	endpoints[500].Status, endpoints[500].Code = down, 503
	after, err := hdstest.Report(endpoints)
	require.NoError(t, err)
	var r report
	var ok bool
	allocs := testing.AllocsPerRun(1, func() { r, ok = readChanges(before, after, everybody) })
	require.True(t, ok)
	assert.Equal(t, report{sightings: map[string]wired{endpoints[500].Cluster: {sighting{down, 503}, true}}, partial: true}, r)
	assert.Less(t, allocs, 100., "they do not grow with the report")
}

func TestReportsThatCannotBeComparedAreReadAsAWhole(t *testing.T) {
	of := func(echoes ...echo) []byte { return bytesOf(t, reportOf(echoes...)) }
	a, b := echo{"a", up, 200}, echo{"b", up, 200}
	twice := append(of(a), of(b)...)
	varint := protowire.AppendVarint(protowire.AppendTag(nil, fieldResponse, protowire.VarintType), 1)
	for name, pair := range map[string][2][]byte{
		"the first":       {nil, of(a)},
		"emptied":         {of(a), nil},
		"one more":        {of(a), of(a, b)},
		"one less":        {of(a, b), of(a)},
		"another":         {of(a), of(b)},
		"another order":   {of(a, b), of(b, a)},
		"merged parts":    {twice, of(a)},
		"a request":       {of(a), bytesOf(t, requestOf("n1"))},
		"after a request": {bytesOf(t, requestOf("n1")), bytesOf(t, requestOf("n2"))},
		"two empty ones":  {nil, nil},
		"no field at all": {of(a), {0xff}},
		"another type":    {varint, varint},
		"garbage inside":  {of(a), {0x12, 0x02, 0x12, 0x05}},
	} {
		_, ok := readChanges(pair[0], pair[1], everybody)
		assert.False(t, ok, name)
	}
}

func TestAStreamKeepsOneReport(t *testing.T) {
	r := newReporting(t, 10)
	assert.Nil(t, r.frame.before)
	r.take(t, wireOf(r.reports[1]))
	assert.Nil(t, r.frame.before)
}

func TestAnUnchangedReportCostsNoAllocation(t *testing.T) {
	for _, n := range sizes {
		r := newReporting(t, n)
		wire := wireOf(r.reports[0])
		assert.Zero(t, testing.AllocsPerRun(10, func() { r.take(t, wire) }), "%d endpoints", n)
	}
}

// TestAFlipCostsWhatOneClusterCosts holds the allocations of a flip down: they
// must not grow with the number of endpoints.
func TestAFlipCostsWhatOneClusterCosts(t *testing.T) {
	for _, n := range sizes {
		r := newReporting(t, n)
		i := 0
		allocs := testing.AllocsPerRun(10, func() {
			i++
			assert.Len(t, r.take(t, wireOf(r.reports[i%2])), 1)
		})
		assert.Less(t, allocs, 100., "%d endpoints", n)
	}
}

// twin is a session that reads every report as a whole.
type twin struct {
	s *session
	f frame
}

func (w *twin) hear(t require.TestingT, b []byte, now time.Time, whole bool) ([]string, bool) {
	w.f.take(wireOf(b))
	if whole {
		w.f.forget()
	}
	dirty, freed, err := w.s.report(&w.f, now)
	require.NoError(t, err)
	w.f.rest(now, w.s.probes)
	slices.Sort(dirty)
	return slices.Compact(dirty), freed
}

// TestReadingChangesIsReadingAllOfIt: whatever follows whatever, a session that
// reads only what has changed knows what one knows that reads all of it.
func TestReadingChangesIsReadingAllOfIt(t *testing.T) {
	all, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asTCP, "c": asHTTP})
	fewer, _ := planOf(map[string]map[string]string{"b": asTCP})
	clusters := []string{probes["a"].Cluster, probes["b"].Cluster, probes["c"].Cluster, "foreign", ""}
	statuses := []corev3.HealthStatus{up, up, down, corev3.HealthStatus_TIMEOUT, corev3.HealthStatus_UNKNOWN}
	partial := 0
	rapid.Check(t, func(t *rapid.T) {
		var pair [2]twin
		first := rapid.SampledFrom([]*Plan{all, fewer}).Draw(t, "first plan")
		for i := range pair {
			pair[i].s = newSession(1, newIdentity(newNode("n1")), "peer", nil)
			pair[i].s.commit(first, t0)
		}
		pair[0].f.packer = newPacker()
		now := t0
		echoes := []echo{{clusters[0], up, 200}, {clusters[1], up, 0}, {clusters[2], up, 200}}
		for range rapid.IntRange(2, 20).Draw(t, "reports") {
			now = now.Add(interval)
			if rapid.Bool().Draw(t, "is quiet for a while") {
				pair[0].f.rest(now.Add(packAfter), pair[0].s.probes)
			}
			switch rapid.IntRange(0, 9).Draw(t, "turn") {
			case 0:
				plan := rapid.SampledFrom([]*Plan{all, fewer}).Draw(t, "plan")
				pair[0].s.commit(plan, now)
				pair[1].s.commit(plan, now)
			case 1:
				echoes = append(slices.Clone(echoes), echo{rapid.SampledFrom(clusters).Draw(t, "cluster"), up, 200})
			case 2:
				echoes = slices.Delete(slices.Clone(echoes), 0, min(len(echoes), 1))
			}
			for i := range echoes {
				if rapid.Bool().Draw(t, "changes") {
					echoes[i].status = rapid.SampledFrom(statuses).Draw(t, "status")
					echoes[i].code = float64(rapid.SampledFrom([]int{0, 200, 503}).Draw(t, "code"))
				}
			}
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(reportOf(echoes...))
			require.NoError(t, err)
			if _, ok := readChanges(pair[0].f.newest(), b, everybody); ok {
				partial++
			}
			dirty, freed := pair[0].hear(t, b, now, false)
			wantDirty, wantFreed := pair[1].hear(t, b, now, true)
			require.Equal(t, wantDirty, dirty)
			require.Equal(t, wantFreed, freed)
			require.Equal(t, pair[1].s.info(), pair[0].s.info())
			for _, p := range probes {
				require.Equal(t, pair[1].s.observation(p), pair[0].s.observation(p))
			}
		}
	})
	assert.Greater(t, partial, 100, "changes were read")
}

// TestASteadyStreamNeedsTwoGoroutines: the handler and the reader; the sender goes
// when it has sent, and nobody keeps a stream without a token authorized.
func TestASteadyStreamNeedsTwoGoroutines(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	const streams = 5
	for i := range streams {
		e := b.connect(fmt.Sprint("n", i))
		e.spec()
		e.say(echo{probes["a"].Cluster, up, 200})
	}
	b.awaitReports(streams)
	b.await("to have the senders gone", func() bool { return roles() == 2*streams })
}

// roles counts the goroutines that are at work in a stream.
func roles() (n int) {
	all := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(one, "hds.(*stream).") {
			n++
		}
	}
	return n
}
