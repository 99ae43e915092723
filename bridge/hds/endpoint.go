package hds

import (
	"math"
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

// marks are what can be true of an endpoint.
type marks uint8

const (
	// answers: there was an answer.
	answers marks = 1 << iota
	// live: the newest report holds the last answer.
	live
	// seen: the newest report of those read as a whole echoed the cluster.
	seen
	// healthy: one of the answers was.
	healthy
	// unsettled: bad news does not count yet, each report brings it closer.
	unsettled
)

// endpoint is the one endpoint of one of our clusters, as one stream sees it. There
// are many, so it is kept small.
type endpoint struct {
	// first is the number of the first report that echoed the cluster; 0 before. One
	// report each 100 ms makes 2^32 in 13 years, and what comes after is one with it.
	first uint32
	// code and status are those of the last answer, if there was one.
	code   uint16
	status uint8
	marks  marks
}

// is says whether a mark is set.
func (e *endpoint) is(m marks) bool { return e.marks&m != 0 }

// mark sets a mark, or takes it off.
func (e *endpoint) mark(m marks, on bool) {
	e.marks &^= m
	if on {
		e.marks |= m
	}
}

// echoed says whether a report has shown the cluster.
func (e *endpoint) echoed() bool { return e.first > 0 }

// begin lets the clock of bad news begin with a report.
func (e *endpoint) begin(report uint64) {
	e.first = uint32(min(report, math.MaxUint32))
	e.mark(unsettled, true)
}

// reports is how many there were after the first, up to the one of a number.
func (e *endpoint) reports(number uint64) uint64 {
	return max(number, uint64(e.first)) - uint64(e.first)
}

// answer is the last status that was an answer.
func (e *endpoint) answer() sighting { return sighting{corev3.HealthStatus(e.status), e.code} }

// take notes an answer, and tells whether it is anything new.
func (e *endpoint) take(got sighting) (changed bool) {
	changed = !e.is(live) || got != e.answer()
	e.status, e.code = uint8(got.status), got.code // isAnswer bounds the status
	e.mark(answers|live, true)
	if got.status == corev3.HealthStatus_HEALTHY {
		e.mark(healthy, true)
	}
	return changed
}
