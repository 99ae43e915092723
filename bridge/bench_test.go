package bridge

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
	"github.com/consul-hds/consul-hds/bridge/telemetry"
)

// sink is a writer that does nothing.
type sink struct{}

func (sink) Set(checks.Want)                 {}
func (sink) Withdraw(string)                 {}
func (sink) Forget(string)                   {}
func (sink) Sync(*catalog.Snapshot)          {}
func (sink) Reconfigure(_, _ time.Duration)  {}
func (sink) States() map[string]checks.State { return nil }

// quietRing is a ring of real parts, none of which runs, with n instances.
func quietRing(tb testing.TB, n int) (*ring, *catalog.Snapshot) {
	tb.Helper()
	metrics := telemetry.New("test")
	server, err := hds.New(hds.Config{Listen: []string{"127.0.0.1:0"}, MaxStreams: 1, Logger: hclog.NewNullLogger(), Metrics: metrics})
	require.NoError(tb, err)
	settings := testSettings()
	r := &ring{
		names: &fakeTable[netip.Addr]{}, files: &fakeTable[[]byte]{}, arriving: map[string]bool{},
		source: fakeSource{newFakeParts()}, observers: server, writer: sink{}, gauges: metrics, logger: hclog.NewNullLogger(), settings: settings,
		plan:      hds.PlanConfig{NodeIDs: settings.NodeIDs, ReportInterval: settings.ReportInterval},
		announcer: newAnnouncer(hclog.NewNullLogger()),
		tracked:   map[string]*tracked{}, problems: map[probe.Problem]bool{}, overdue: map[uint64]bool{},
	}
	snap := &catalog.Snapshot{Node: catalog.Node{Name: "n1", Address: "10.0.0.1"}, Revision: 1, Instances: map[string]*catalog.Instance{}, Checks: map[string]*catalog.Check{}}
	for i := range n {
		inst := web(fmt.Sprintf("steady-%05d", i))
		snap.Instances[inst.ID] = inst
		snap.Checks["hds:"+inst.ID] = &catalog.Check{ID: "hds:" + inst.ID, ServiceID: inst.ID, Type: catalog.CheckTypeTTL, Status: "passing", Notes: "consul-hds: of a test"}
	}
	r.takeSnapshot(snap, t0)
	require.Len(tb, r.tracked, n)
	require.Equal(tb, health.Passing, r.tracked["hds:steady-00000"].verdict.Status)
	return r, snap
}

// oneChange is the next snapshot, with one instance changed.
func oneChange(s *catalog.Snapshot) *catalog.Snapshot {
	next := *s
	next.Revision++
	next.Instances = maps.Clone(s.Instances)
	changed := *s.Instances["steady-00000"]
	changed.Port = 1000 + int(next.Revision%1000)
	next.Instances[changed.ID] = &changed
	return &next
}

// cpu is the CPU time that this process has used, in nanoseconds: on a machine that
// is busy with other things, wall time says little.
func cpu(tb testing.TB) int64 {
	var spent unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &spent))
	return spent.Utime.Nano() + spent.Stime.Nano()
}

// BenchmarkOneChange is what it costs to turn a snapshot in which one instance has
// changed into probes, plan and verdicts.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, snap := quietRing(b, n)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				snap = oneChange(snap)
				r.takeSnapshot(snap, t0)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// TestOneChangeCostsLittleMoreThanOneChange holds the allocations down that a node
// of a thousand instances costs when one of them changes.
func TestOneChangeCostsLittleMoreThanOneChange(t *testing.T) {
	r, snap := quietRing(t, 1000)
	allocs := testing.AllocsPerRun(10, func() {
		snap = oneChange(snap)
		r.takeSnapshot(snap, t0)
	})
	assert.Less(t, allocs, 500.)
}
