package hds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// sidecarOf is the registration of the sidecar of an instance of web.
func sidecarOf(id, destination string) *catalog.Instance {
	return &catalog.Instance{ID: id, Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: destination}}
}

// watching is what the observers of a probe are: those of all streams, the oldest
// first, that the newest plan gives the probe, and whose tokens let them.
func watching(s *Server, p *probe.Probe) (ids []uint64) {
	plan := s.plan.Load()
	for _, o := range s.all() {
		kind := plan.kind(o.session.identity)
		if (kind == NodeEnvoy && p.ByNode || kind == SidecarEnvoy && slices.Contains(p.Sidecars, o.session.identity.id)) && o.session.trusted(p.Service) {
			ids = append(ids, o.session.id)
		}
	}
	return ids
}

// TestObserversAreThoseOfAllStreams opens and closes streams and changes plans in any
// order.
func TestObserversAreThoseOfAllStreams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBed(t, Config{Listen: []string{"127.0.0.1:1"}, MaxStreams: 100})
		var sessions []*session
		var probes map[string]*probe.Probe
		ids := rapid.SampledFrom([]string{"n1", "n2", "web-1-a", "web-1-b", "web-2-a", "stranger"})
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				allowed := rapid.SampledFrom([]map[string]bool{nil, {"web": true}, {"web": false}}).Draw(rt, "allowed")
				ident := newIdentity(newNode(ids.Draw(rt, "id")))
				ident.namespace = rapid.SampledFrom([]string{"", "default", "another"}).Draw(rt, "namespace")
				ses, err := b.open(ident, "", allowed, func() {}, &frame{})
				if err == nil {
					sessions = append(sessions, ses)
				}
			},
			"close": func(rt *rapid.T) {
				if len(sessions) == 0 {
					rt.Skip("none is open")
				}
				i := rapid.IntRange(0, len(sessions)-1).Draw(rt, "which")
				b.close(sessions[i], errNoFirst)
				sessions = slices.Delete(sessions, i, i+1)
			},
			"plan": func(rt *rapid.T) {
				var proxies []*catalog.Instance
				for _, id := range []string{"web-1-a", "web-1-b", "web-2-a"} {
					if rapid.Bool().Draw(rt, id) {
						proxies = append(proxies, sidecarOf(id, id[:len("web-1")]))
					}
				}
				nodes := rapid.SampledFrom([][]string{nil, {"n1"}, {"n*"}, {"*"}}).Draw(rt, "node_ids")
				var plan *Plan
				plan, probes = world(PlanConfig{NodeIDs: nodes}, map[string]map[string]string{"web-1": asHTTP, "web-2": asHTTP, "web-3": asHTTP}, proxies...)
				b.SetPlan(plan)
			},
			"": func(rt *rapid.T) {
				for id, p := range probes {
					var got []uint64
					for _, o := range b.Observations(p) {
						got = append(got, o.Stream)
					}
					require.Equal(rt, watching(b.Server, p), got, id)
				}
			},
		})
	})
}

// What one probe's observers said is found without a look at other streams: else the
// cost of each check would grow with the node.
func TestObserversCostNothingOfOtherStreams(t *testing.T) {
	b := newBed(t, Config{Listen: []string{"127.0.0.1:1"}, MaxStreams: 1000})
	metas := map[string]map[string]string{}
	var proxies []*catalog.Instance
	for i := range 300 {
		id := fmt.Sprint("web-", i)
		metas[id] = asHTTP
		proxies = append(proxies, sidecarOf(id+"-proxy", id))
	}
	plan, probes := world(nodeOnly, metas, proxies...)
	b.SetPlan(plan)
	for _, p := range proxies {
		ses, err := b.open(newIdentity(newNode(p.ID)), "", nil, func() {}, &frame{})
		require.NoError(t, err)
		if p.ID != "web-7-proxy" {
			ses.mu.Lock() // who looks at it waits for ever
		}
	}
	require.Equal(t, []Observation{{NodeID: "web-7-proxy", Stream: 8}}, b.Observations(probes["web-7"]))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { b.Observations(probes["web-7"]) }), 1.0, "the answer")
}
