package hds

import (
	"sort"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// asked are clusters that an Envoy is asked for. The slices are as long as one
// another, in order of the clusters' names, and keep length and order.
type asked struct {
	// probes may be those of a plan, and are not written to.
	probes    []*probe.Probe
	endpoints []endpoint
}

// index looks a cluster up.
func (a asked) index(cluster string) (int, bool) {
	return sort.Find(len(a.probes), func(i int) int { return strings.Compare(cluster, a.probes[i].Cluster) })
}

// has says whether a cluster is among them.
func (a asked) has(cluster string) bool {
	_, ok := a.index(cluster)
	return ok
}

// find is the endpoint of a cluster; nil if it is not among them.
func (a asked) find(cluster string) *endpoint {
	i, ok := a.index(cluster)
	if !ok {
		return nil
	}
	return &a.endpoints[i]
}

// quiet is how many reports, one each interval, after the first echo of a probe bad
// news may have to wait.
func quiet(p *probe.Probe, interval time.Duration) uint64 {
	return uint64(probe.Grace(p.Settings) / interval)
}

// endpoint is the one endpoint of one of our clusters, as one stream sees it. There
// are many, so it is kept small.
type endpoint struct {
	// firstEcho is the number of the first report that echoed the cluster; 0 before.
	firstEcho uint64
	// code and status are those of the last answer, if answers says that there was
	// one; live says that the newest report holds it.
	code          uint16
	status        uint8
	answers, live bool
	// seen says that the newest report of those read as a whole echoed the cluster.
	seen    bool
	healthy bool
	// unsettled says that bad news does not count yet: each report brings it closer.
	unsettled bool
}

// echoed says whether a report has shown the cluster.
func (e *endpoint) echoed() bool { return e.firstEcho > 0 }

// answer is the last status that was an answer.
func (e *endpoint) answer() sighting { return sighting{corev3.HealthStatus(e.status), e.code} }

// take notes an answer, and tells whether it is anything new.
func (e *endpoint) take(got sighting) (changed bool) {
	changed = !e.live || got != e.answer()
	e.status, e.code = uint8(got.status), got.code // isAnswer bounds the status
	e.answers, e.live = true, true
	e.healthy = e.healthy || got.status == corev3.HealthStatus_HEALTHY
	return changed
}
