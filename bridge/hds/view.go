package hds

import (
	"time"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// View is how far a probe has come on one stream, for people.
type View struct {
	Stream
	// Sent is when the newest specifier went out, zero before the first.
	Sent time.Time
	// Included says that it has the probe; Left is why not, if the Envoy cannot
	// be asked.
	Included bool
	Left     error
	// Echoed says that a report has shown the probe's cluster: this very
	// definition is applied.
	Echoed bool
	// Observation is what the stream has said.
	Observation Observation
}

// Views tells how far a probe has come on each stream that is to observe it, in
// order of their age.
func (s *Server) Views(p *probe.Probe) []View {
	var out []View
	for _, o := range s.observers(p, nil) {
		out = append(out, o.session.view(p))
	}
	return out
}

func (s *session) view(p *probe.Probe) View {
	v := View{Stream: s.info(), Observation: s.observation(p)}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Sent, v.Left = s.sent, s.dropped[p.Cluster]
	if ep := s.asked.find(p.Cluster); ep != nil {
		v.Included, v.Echoed = true, ep.echoed()
	}
	return v
}
