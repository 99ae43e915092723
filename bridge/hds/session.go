package hds

import (
	"slices"
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
	// endpoints are the clusters of the newest specifier, by name; order is their
	// order in it.
	endpoints map[string]*endpoint
	order     []string
	interval  time.Duration
	// specified says that there was a specifier at all; the newest was made at
	// sent.
	specified bool
	sent      time.Time
	// leaving are clusters that were withdrawn and may still be echoed. None of
	// them is sent again before a report has shown it gone: an echo of the old
	// one would be taken for the new one.
	leaving map[string]bool
	// dropped are the probes that are left out for this Envoy, with the reason.
	dropped map[string]error

	// reports counts the reports; the newest came at lastReport.
	reports    uint64
	lastReport time.Time
	// unapplied is since when the newest specifier awaits its echo, zero when it
	// was echoed in full.
	unapplied time.Time
	// decoded is the number of the newest report that was read as a whole; foreign
	// is the number of clusters in it that are not in the newest specifier.
	decoded uint64
	foreign int
	// reread makes the next report be read as a whole, even if it equals the last;
	// repeats says that the newest one named a cluster twice.
	reread, repeats bool
	// unsettled are the endpoints whose bad news does not count yet: each report
	// brings it closer.
	unsettled map[string]*endpoint
}

// endpoint is the one endpoint of one of our clusters, as one stream sees it.
type endpoint struct {
	probe *probe.Probe
	// message is what is sent; other streams may share it.
	message *healthv3.ClusterHealthCheck
	// quiet is how many reports after the first echo bad news may have to wait.
	quiet uint64

	echoed    bool
	firstEcho uint64
	// seen is the number of the report, of those read as a whole, that echoed the
	// cluster last.
	seen uint64
	// answer is the last status that was an answer; live says that the newest
	// report holds one, else at is when the last one came.
	answer  sighting
	answers bool
	live    bool
	at      time.Time
	healthy bool
}

func newSession(id uint64, ident identity, peer string, allowed map[string]bool) *session {
	return &session{
		id: id, identity: ident, peer: peer, kind: UnknownEnvoy, allowed: allowed,
		endpoints: map[string]*endpoint{}, leaving: map[string]bool{}, unsettled: map[string]*endpoint{},
	}
}

// differs says whether the plan asks for another specifier than the newest.
func (s *session) differs(p *Plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	probes := s.assign(p)
	if !s.specified || s.interval != p.config.ReportInterval {
		return true
	}
	want := make([]string, 0, len(probes))
	for _, pr := range probes {
		if !s.leaving[pr.Cluster] && s.dropped[pr.Cluster] == nil {
			want = append(want, pr.Cluster)
		}
	}
	return !slices.Equal(want, s.order)
}

// commit takes the plan over and returns the specifier to send for it, and the
// probes that are left out of it.
func (s *session) commit(p *Plan, now time.Time) (*healthv3.HealthCheckSpecifier, map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	probes := s.assign(p)
	s.interval, s.specified, s.reread = p.config.ReportInterval, true, true
	s.sent = now

	old := s.endpoints
	s.endpoints = make(map[string]*endpoint, len(probes))
	s.order, s.dropped = nil, nil
	clusters := make([]*healthv3.ClusterHealthCheck, 0, len(probes))
	for _, pr := range probes {
		ep, err := s.endpointFor(p.clusters, pr, old[pr.Cluster])
		if err != nil {
			s.drop(pr.Cluster, err)
		}
		if ep == nil {
			continue
		}
		s.endpoints[pr.Cluster] = ep
		s.order = append(s.order, pr.Cluster)
		clusters = append(clusters, ep.message)
	}
	for name := range old {
		if s.endpoints[name] == nil {
			s.leaving[name] = true
			delete(s.unsettled, name)
		}
	}
	s.noteApplied(now, true)
	return specifier(clusters, s.interval), s.dropped
}

// endpointFor is the endpoint of a probe: the one there was, or a new one. It
// is nil while an older cluster of the name may still be echoed.
func (s *session) endpointFor(clusters *clusters, pr *probe.Probe, old *endpoint) (*endpoint, error) {
	if s.leaving[pr.Cluster] || s.endpoints[pr.Cluster] != nil {
		return nil, nil
	}
	quiet := uint64(probe.Grace(pr.Settings) / s.interval)
	if old != nil {
		if old.quiet != quiet && old.echoed { // reports at another pace are another clock
			old.firstEcho = s.reports + 1
			s.unsettled[pr.Cluster] = old
		}
		old.probe, old.quiet = pr, quiet
		return old, nil
	}
	if err := s.identity.fits(pr); err != nil {
		return nil, err
	}
	m, err := clusters.of(pr)
	if err != nil {
		return nil, err
	}
	return &endpoint{probe: pr, message: m, quiet: quiet}, nil
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
	// Reports is how many reports came after the first that echoed the probe; Quiet
	// is how many of them bad news of an endpoint that was never healthy may have
	// to wait.
	Reports, Quiet int
	// WasHealthy says that the endpoint has been healthy on this stream.
	WasHealthy bool
	// At is when the last report came that held an answer.
	At time.Time
}

// observation is what the stream has said of a probe, and whether it is to
// observe it at all.
func (s *session) observation(p *probe.Probe) Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Observation{NodeID: s.identity.node.GetId(), Stream: s.id}
	ep := s.endpoints[p.Cluster]
	if ep == nil || !ep.answers {
		return o
	}
	o.Answered, o.Status, o.WasHealthy, o.At = true, ep.answer.status, ep.healthy, ep.at
	o.Reports, o.Quiet = int(max(s.reports, ep.firstEcho)-ep.firstEcho), int(ep.quiet)
	if s.identity.codes {
		o.Code = ep.answer.code
	}
	if ep.live {
		o.At = s.lastReport
	}
	return o
}
