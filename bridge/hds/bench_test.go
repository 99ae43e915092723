package hds

import (
	"fmt"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// sizes are how many endpoints a report has in benchmarks.
var sizes = []int{10, 100, 1000, 5000}

// wireOf is a message as it comes from a connection: in the frames of HTTP/2.
func wireOf(b []byte) mem.BufferSlice {
	const most = 16 << 10
	var out mem.BufferSlice
	for ; len(b) > most; b = b[most:] {
		out = append(out, mem.SliceBuffer(b[:most]))
	}
	return append(out, mem.SliceBuffer(b))
}

// reporting is a session of so many endpoints that has been told of all of them,
// and two reports of them, of which the second shows one endpoint down.
type reporting struct {
	session *session
	frame   frame
	reports [2][]byte
}

// planOfMany is a plan of n probes.
func planOfMany(n int) *Plan {
	metas := map[string]map[string]string{}
	for i := range n {
		metas[fmt.Sprintf("steady-%05d", i)] = asHTTP
	}
	plan, _ := planOf(metas)
	return plan
}

func newReporting(tb testing.TB, n int) *reporting {
	tb.Helper()
	plan := planOfMany(n)
	r := &reporting{session: newSession(1, newIdentity(newNode("n1")), "peer", nil)}
	spec, _ := r.session.commit(plan, t0)
	endpoints := hdstest.Asked(spec)
	require.Len(tb, endpoints, n)
	for i := range r.reports {
		var err error
		r.reports[i], err = hdstest.Report(endpoints)
		require.NoError(tb, err)
		endpoints[n/2].Status, endpoints[n/2].Code = down, 503
	}
	r.take(tb, wireOf(r.reports[0]))
	return r
}

// take takes a report in, as the reader of a stream does.
func (r *reporting) take(tb testing.TB, wire mem.BufferSlice) []string {
	r.frame.take(wire)
	dirty, _, err := r.session.report(&r.frame, time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	return dirty
}

// BenchmarkUnchangedReport is what an equal report costs once it was received.
func BenchmarkUnchangedReport(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newReporting(b, n)
			wire := wireOf(r.reports[0])
			b.ReportAllocs()
			for b.Loop() {
				r.take(b, wire)
			}
		})
	}
}

// BenchmarkFlip is what a report with one flip costs once it was received, and
// BenchmarkUnmarshal what it would cost to decode it.
func BenchmarkFlip(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newReporting(b, n)
			wires := [2]mem.BufferSlice{wireOf(r.reports[0]), wireOf(r.reports[1])}
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				r.take(b, wires[i%2])
			}
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			wire := wireOf(newReporting(b, n).reports[0])
			b.ReportAllocs()
			for b.Loop() {
				m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
				if err := proto.Unmarshal(wire.Materialize(), m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
