package hds

import (
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// session is the state of one stream: what its Envoy was sent, and what it said
// of it. It knows nothing of gRPC and never blocks.
type session struct {
	id       uint64
	identity identity
	peer     string
	// frame holds the newest report.
	frame *frame

	mu   sync.Mutex
	kind Kind
	// allowed says of each service that was asked for whether the stream's token
	// may write it; nil is a stream without a token, which may observe all.
	allowed map[string]bool
	// asked are the clusters of the newest specifier; specifiers counts these.
	asked      asked
	specifiers uint64
	interval   time.Duration
	// sent is when the newest was made.
	sent time.Time
	// leaving are clusters that were withdrawn and may still be echoed. None of
	// them is sent again before a report has shown it gone: an echo of the old
	// one would be taken for the new one. It is nil while there are none.
	leaving map[string]bool
	// fallen is where the last answer came of the clusters that had one, and have none
	// in the newest report. It is nil before there was any.
	fallen map[string]moment
	// dropped are the probes that are left out for this Envoy, with the reason.
	dropped map[string]error

	// reports counts the reports; the newest came at lastReport.
	reports    uint64
	lastReport time.Time
	// unapplied is since when the newest specifier awaits its echo, zero when it
	// was echoed in full.
	unapplied time.Time
	// decoded says that a report was read as a whole; foreign is the number of
	// clusters in the newest of these that are not in the newest specifier.
	decoded bool
	foreign int
	// reread makes the next report be read as a whole, even if it equals the last;
	// repeats says that the newest one named a cluster twice.
	reread, repeats bool
	// unsettled is the number of endpoints that are not settled.
	unsettled int
}

// moment is when a report came, and which of the stream's it was.
type moment struct {
	at     time.Time
	report uint64
}

func newSession(id uint64, ident identity, peer string, allowed map[string]bool) *session {
	return &session{id: id, identity: ident, peer: peer, kind: UnknownEnvoy, allowed: allowed}
}

// differs says whether the plan asks for another specifier than the newest.
func (s *session) differs(p *Plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	probes := s.assign(p)
	if !s.specified() || s.interval != p.config.ReportInterval {
		return true
	}
	n := 0
	for _, pr := range probes {
		if s.leaving[pr.Cluster] || s.dropped[pr.Cluster] != nil {
			continue
		}
		if n == len(s.asked.probes) || s.asked.probes[n].Cluster != pr.Cluster {
			return true
		}
		n++
	}
	return n < len(s.asked.probes)
}

// specified says whether there was a specifier at all.
func (s *session) specified() bool { return s.specifiers > 0 }

// commit takes the plan over and returns the specifier to send for it, and the
// probes that are left out of it.
func (s *session) commit(p *Plan, now time.Time) (*healthv3.HealthCheckSpecifier, map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	probes := s.assign(p)
	old, pace := s.asked, s.interval
	s.interval, s.sent, s.reread = p.config.ReportInterval, now, true
	s.specifiers++
	clusters := s.ask(p.clusters, probes)
	s.inherit(old, pace)
	s.noteApplied(now, true)
	return specifier(clusters, s.interval), s.dropped
}

// ask makes asked what can be asked of probes, and returns it as it is sent.
func (s *session) ask(made *clusters, probes []*probe.Probe) []*healthv3.ClusterHealthCheck {
	s.dropped = nil
	clusters := make([]*healthv3.ClusterHealthCheck, 0, len(probes))
	some := make([]*probe.Probe, 0, len(probes))
	for _, pr := range probes {
		if s.leaving[pr.Cluster] {
			continue // an older cluster of the name may still be echoed
		}
		m, err := s.message(made, pr)
		if err != nil {
			s.drop(pr.Cluster, err)
			continue
		}
		clusters, some = append(clusters, m), append(some, pr)
	}
	if len(some) == len(probes) {
		some = probes // the plan's own: as a rule there is one slice for all streams
	}
	s.asked = asked{probes: some, endpoints: make([]endpoint, len(some))}
	return clusters
}

// message is what the Envoy is sent of a probe, or why it cannot be.
func (s *session) message(clusters *clusters, pr *probe.Probe) (*healthv3.ClusterHealthCheck, error) {
	if err := s.identity.fits(pr); err != nil {
		return nil, err
	}
	return clusters.of(pr)
}

// inherit takes over what is known of the clusters that were asked for before, when
// pace was the report interval, and notes which of them are no more.
func (s *session) inherit(old asked, pace time.Duration) {
	s.unsettled = 0
	for i, pr := range old.probes {
		k, ok := s.asked.index(pr.Cluster)
		if !ok {
			s.leave(pr.Cluster)
			continue
		}
		ep := &s.asked.endpoints[k]
		*ep = old.endpoints[i]
		if ep.echoed() && quiet(pr, pace) != quiet(s.asked.probes[k], s.interval) { // reports at another pace are another clock
			ep.begin(s.reports + 1)
		}
		if ep.is(unsettled) {
			s.unsettled++
		}
	}
}

// leave notes that a cluster was withdrawn.
func (s *session) leave(cluster string) {
	if s.leaving == nil {
		s.leaving = map[string]bool{}
	}
	s.leaving[cluster] = true
	delete(s.fallen, cluster)
}

func (s *session) drop(cluster string, err error) {
	if s.dropped == nil {
		s.dropped = map[string]error{}
	}
	s.dropped[cluster] = err
}

// stranger says whether nothing is asked of the Envoy.
func (s *session) stranger() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kind == UnknownEnvoy
}

// Observation is what a stream has said of a probe so far.
type Observation struct {
	NodeID string
	// Stream tells streams apart: a newer stream has a higher number.
	Stream uint64
	// Answered is false as long as no report held an answer for the probe; then
	// only NodeID and Stream mean anything.
	Answered bool
	// Status is the last status that was an answer.
	Status corev3.HealthStatus
	// Code is the HTTP status code that came with it; 0 when there was none, or
	// this Envoy's codes cannot be trusted.
	Code int
	// Reports is how many reports came after the first that echoed the probe, up to
	// the last that held an answer; Quiet is how many of them bad news of an endpoint
	// that was never healthy may have to wait.
	Reports, Quiet int
	// WasHealthy says that the endpoint has been healthy on this stream.
	WasHealthy bool
	// At is when the last report came that held an answer.
	At time.Time
}

// probes are those that were asked for. They are not to be written to.
func (s *session) probes() []*probe.Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.probes
}

// observation is what the stream has said of a probe, and whether it is to
// observe it at all.
func (s *session) observation(p *probe.Probe) Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Observation{NodeID: s.identity.id, Stream: s.id}
	ep := s.asked.find(p.Cluster)
	if ep == nil || !ep.is(answers) {
		return o
	}
	last := moment{s.lastReport, s.reports}
	if !ep.is(live) {
		last = s.fallen[p.Cluster]
	}
	o.Answered, o.Status, o.WasHealthy, o.At = true, ep.answer().status, ep.is(healthy), last.at
	o.Reports, o.Quiet = int(ep.reports(last.report)), int(quiet(p, s.interval))
	if s.identity.codes {
		o.Code = int(ep.code)
	}
	return o
}
