package main

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/consul-hds/consul-hds/test/lab"
)

// The run in the middle decides, ratio by ratio: the others are of a machine that
// was busy elsewhere.
func TestTheSteadyRowsAddUp(t *testing.T) {
	quiet := spent{idle: 1, own: 9, served: 2, daemon: 0.75, probing: 3, resting: 1, bare: 2.5}
	assert.Equal(t, []float64{8, 1, 2, 1.5, 3.75}, []float64{quiet.checking(), quiet.ttl(), quiet.probes(), quiet.floor(), quiet.ours()})
	busy := quiet
	busy.daemon, busy.probing = 9, 30
	rows := steadyRows([]spent{busy, quiet, quiet})
	require.Len(t, rows, 3)
	assert.Equal(t, "0.75 %", rows[0].ours)
	assert.True(t, rows[0].met)
	assert.Equal(t, []string{"3.75 %", "8.00 %", "0.47"}, []string{rows[1].ours, rows[1].floor, rows[1].ratio})
	assert.True(t, rows[1].met)
	assert.Equal(t, []string{"1.50 %", "8.00 %", "0.19"}, []string{rows[2].ours, rows[2].floor, rows[2].ratio})
	rows = steadyRows([]spent{busy, busy, quiet})
	assert.False(t, rows[0].met)
	assert.False(t, rows[1].met)
}

func TestDetectionIsComparedByTheMedian(t *testing.T) {
	way := func(ms ...int) *watched {
		w := &watched{}
		for _, d := range ms {
			w.delays = append(w.delays, time.Duration(d)*time.Millisecond)
		}
		return w
	}
	rows := detectionRows([]*watched{way(1, 400, 9000), way(500, 500, 500), way(100, 150, 9000), way(2000)})
	require.Len(t, rows, 3)
	assert.Equal(t, []string{"500.00 ms", "400.00 ms", "1.25", "yes"}, compared(rows[0]))
	assert.Equal(t, []string{"150.00 ms", "400.00 ms", "0.38", "no"}, compared(rows[1]))
	assert.Equal(t, []string{"2000.00 ms", "400.00 ms", "5.00", "–"}, compared(rows[2]))
}

func compared(r row) []string {
	c := r.cells()
	return []string{c[2], c[3], c[4], c[6]}
}

// What the bare Envoys probe must be what the daemon asks of the others: else the
// floor is one of something else.
func TestAStaticBootstrapHasTheProbesOfTheSpecifier(t *testing.T) {
	spec := &healthv3.HealthCheckSpecifier{ClusterHealthChecks: []*healthv3.ClusterHealthCheck{asking("hds:a@01234567", 80), asking("hds:b@01234567", 81)}}
	text, err := staticBootstrap(spec)
	require.NoError(t, err)
	got, err := lab.DecodeBootstrap(text)
	require.NoError(t, err)
	clusters := got.GetStaticResources().GetClusters()
	require.Len(t, clusters, 2)
	for i, c := range clusters {
		asked := spec.GetClusterHealthChecks()[i]
		assert.Empty(t, cmp.Diff(asked.GetHealthChecks(), c.GetHealthChecks(), protocmp.Transform()))
		var addresses []*corev3.Address
		for _, l := range c.GetLoadAssignment().GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				addresses = append(addresses, e.GetEndpoint().GetAddress())
			}
		}
		want := []*corev3.Address{asked.GetLocalityEndpoints()[0].GetEndpoints()[0].GetAddress()}
		assert.Empty(t, cmp.Diff(want, addresses, protocmp.Transform()), fmt.Sprint(i))
	}
}

func TestEnvoysVersionIsFound(t *testing.T) {
	assert.Equal(t, "1.40.0", versionIn("\n/a/path/envoy-1.36.2  version: 60f25aa/1.40.0/Clean/RELEASE/BoringSSL\n\n"))
	assert.Equal(t, "unknown", versionIn("nothing"))
}
