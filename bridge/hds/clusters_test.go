package hds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// TestAClusterIsMadeOnceForAllStreams: what a thousand streams are sent is there
// once, also when they came under different plans.
func TestAClusterIsMadeOnceForAllStreams(t *testing.T) {
	b := newBed(t, Config{Listen: []string{"127.0.0.1:0"}})
	sent := func(p *Plan) map[string]any {
		s := newSession(1, newIdentity(newNode("n1")), "peer", nil)
		spec, _ := s.commit(p, t0)
		out := map[string]any{}
		for _, c := range spec.GetClusterHealthChecks() {
			out[c.GetClusterName()] = c
		}
		return out
	}
	metas := map[string]map[string]string{"a": asHTTP, "b": asTCP}
	first, probes := planOf(metas)
	b.SetPlan(first)
	before := sent(first)
	assert.Same(t, before[probes["a"].Cluster], sent(first)[probes["a"].Cluster])

	metas["b"] = map[string]string{"hds": "tcp", "hds_port": "81"}
	second, changed := planOf(metas)
	b.SetPlan(second)
	after := sent(second)
	assert.Same(t, before[probes["a"].Cluster], after[probes["a"].Cluster])
	require.NotEqual(t, probes["b"].Cluster, changed["b"].Cluster)
	assert.Len(t, second.clusters.made, 2, "what no plan wants any more is let go of")
	b.SetPlan(second)
	assert.Equal(t, after, sent(second), "nor does the same plan forget")
}

func TestAClusterThatIsRefusedIsRefusedToAll(t *testing.T) {
	p := &probe.Probe{CheckID: "hds:a", Cluster: "hds:a@01234567", ByNode: true} // of no kind, without a target
	plan := NewPlan(PlanConfig{NodeIDs: []string{"n1"}, ReportInterval: interval}, &catalog.Snapshot{}, []*probe.Probe{p})
	for range 2 {
		s := newSession(1, newIdentity(newNode("n1")), "peer", nil)
		spec, dropped := s.commit(plan, t0)
		assert.Empty(t, spec.ClusterHealthChecks)
		assert.ErrorIs(t, dropped[p.Cluster], errHarmful)
	}
}
