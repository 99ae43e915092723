package hds

import (
	"cmp"
	"slices"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// open is an open stream: its state, and how to tell it of a new plan.
type open struct {
	session *session
	replan  func()
}

// roster are the open streams, so ordered that the observers of a probe are found
// without a look at all others. The server's mu guards it; no slice of it is written
// to once it is there.
type roster struct {
	// all are the streams, the oldest first.
	all []*open
	// byID are the same by the node id that they name, and nodes those of node Envoys.
	byID  map[string][]*open
	nodes []*open
}

func newRoster() roster { return roster{byID: map[string][]*open{}} }

// add adds the newest stream. Without a plan it is no node Envoy's.
func (r *roster) add(o *open, plan *Plan) {
	with := func(list []*open) []*open { return append(slices.Clip(list), o) }
	id := o.session.identity.id
	r.all, r.byID[id] = with(r.all), with(r.byID[id])
	if plan.kind(o.session.identity) == NodeEnvoy {
		r.nodes = with(r.nodes)
	}
}

func (r *roster) remove(ses *session) {
	without := func(list []*open) []*open {
		return slices.DeleteFunc(slices.Clone(list), func(o *open) bool { return o.session == ses })
	}
	id := ses.identity.id
	r.all, r.byID[id], r.nodes = without(r.all), without(r.byID[id]), without(r.nodes)
	if len(r.byID[id]) == 0 {
		delete(r.byID, id)
	}
}

// follow finds the node Envoys of another plan.
func (r *roster) follow(plan *Plan) {
	r.nodes = nil
	for _, o := range r.all {
		if plan.kind(o.session.identity) == NodeEnvoy {
			r.nodes = append(r.nodes, o)
		}
	}
}

// observers appends to a list the streams that are to observe a probe by the newest
// plan, as far as their tokens go, the oldest first.
func (s *Server) observers(p *probe.Probe, list []*open) []*open {
	plan := s.plan.Load()
	s.mu.Lock()
	for _, id := range p.Sidecars {
		for _, o := range s.streams.byID[id] {
			if plan.kind(o.session.identity) == SidecarEnvoy {
				list = append(list, o)
			}
		}
	}
	if p.ByNode {
		list = append(list, s.streams.nodes...)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *open) int { return cmp.Compare(a.session.id, b.session.id) })
	return slices.DeleteFunc(slices.Compact(list), func(o *open) bool { return !o.session.trusted(p.Service) })
}

// all lists the open streams, the oldest first; the list is not to be written
// to.
func (s *Server) all() []*open {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams.all
}
