package bridge

import (
	"slices"
	"strings"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// says is what an Envoy says of a cluster now; early says that its first probe has
// not ended.
func (m *model) says(e *simEnvoy, c simCluster) (w word, early bool) {
	if time.Since(c.made) < e.first {
		return saysUnhealthy, true
	}
	return m.opinion(e, c.instance()), false
}

func (m *model) opinion(e *simEnvoy, instance string) word {
	if w := e.said[instance]; w != "" {
		return w
	}
	if w := m.scene.apps[instance]; w != "" {
		return w
	}
	return saysHealthy
}

func (m *model) opened(e *simEnvoy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams++
	m.stirred = time.Now()
	e.order, e.clusters, e.interval = m.streams, nil, 0
	m.disturbed(patience)
}

func (m *model) closed(e *simEnvoy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.order = 0
	m.disturbed(patience)
}

func (m *model) interval(e *simEnvoy) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.interval
}

func (m *model) lagging(e *simEnvoy) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(e.lags)
}

// asked takes in what an Envoy is asked for, which it may apply later.
func (m *model) asked(spec *healthv3.HealthCheckSpecifier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, asked := range hdstest.Asked(spec) {
		m.subject(simCluster{name: asked.Cluster}.check()).cluster = asked.Cluster
	}
}

// applied takes in that an Envoy has applied a specifier.
func (m *model) applied(e *simEnvoy, spec *healthv3.HealthCheckSpecifier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := e.clusters
	e.apply(spec)
	if !slices.EqualFunc(had, e.clusters, func(a, b simCluster) bool { return a.name == b.name }) {
		m.disturbed(patience)
	}
}

// report is what an Envoy reports now; loud says that it reports at all.
func (m *model) report(e *simEnvoy) (out []hdstest.Endpoint, loud bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clusters := e.clusters
	if e.stranger {
		clusters = m.allClusters()
	}
	for _, c := range clusters {
		w, early := m.says(e, c)
		status, code := w.wire()
		out = append(out, hdstest.Endpoint{Cluster: c.name, Address: c.address, Status: status, Code: code})
		if !e.mute {
			m.heard(e, c, w, early)
		}
	}
	return out, !e.mute
}

// allClusters are those that a stranger may speak of.
func (m *model) allClusters() (out []simCluster) {
	for _, s := range m.subjects {
		if s.cluster != "" {
			out = append(out, simCluster{name: s.cluster, address: hdstest.Address("127.0.0.1", 80)})
		}
	}
	slices.SortFunc(out, func(a, b simCluster) int { return strings.Compare(a.name, b.name) })
	return out
}

// heard takes in what an Envoy tells a daemon.
func (m *model) heard(e *simEnvoy, c simCluster, w word, early bool) {
	s, inst := m.subject(c.check()), m.known[c.instance()]
	if m.daemon == nil || inst == nil || c.name != s.cluster || c.made.Before(inst.since) {
		return
	}
	if e.stranger || !m.observes(e, c.instance()) && m.fine.Before(time.Now()) { // but the daemon may not know yet who is to observe
		return
	}
	switch w {
	case saysUnknown, saysDraining, saysOdd:
	case saysHealthy, saysDegraded:
		s.good, s.heard = time.Now(), m.daemon
		if w == saysDegraded {
			s.bad = time.Now()
		}
	default:
		if !early {
			s.bad, s.heard = time.Now(), m.daemon
		}
	}
}

// opinionless says that what an Envoy says of an instance is no answer.
func (e *simEnvoy) opinionless(m *model, instance string) bool {
	return statusOf(m.opinion(e, instance)) == ""
}

// statusOf is the status that a word calls for; empty if it is no answer.
func statusOf(w word) string {
	switch w {
	case saysHealthy:
		return "passing"
	case saysTooMany, saysDegraded:
		return "warning"
	case saysUnhealthy, saysTimeout:
		return "critical"
	}
	return ""
}
