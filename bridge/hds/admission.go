package hds

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"

	"github.com/consul-hds/consul-hds/bridge/logging"
)

func (s *Server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted >= s.config.MaxStreams {
		return false
	}
	s.admitted++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted--
}

// room says whether there is any for an Envoy now. Only open decides: of many
// that come at once, each finds room here.
func (s *Server) room(ident identity) error {
	plan := s.plan.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomLocked(plan, ident)
}

// roomLocked says whether there is room for an Envoy: unknown ones may have half
// of the streams, so that they keep none of ours out. The caller holds mu.
func (s *Server) roomLocked(plan *Plan, ident identity) error {
	if plan == nil {
		return nil // nobody is known yet
	}
	if plan.kind(ident) != UnknownEnvoy {
		return nil
	}
	strangers := 0
	for _, o := range s.streams.all {
		if o.session.stranger() {
			strangers++
		}
	}
	if strangers < max(1, s.config.MaxStreams/2) {
		return nil
	}
	return refused(reasonStrangers, codes.ResourceExhausted, fmt.Errorf("half of the %d streams are those of unknown Envoys already", s.config.MaxStreams))
}

// open adds a stream, or says that there is no room for it.
func (s *Server) open(ident identity, peer string, allowed map[string]bool, replan func(), f *frame) (*session, error) {
	ses, err := s.add(ident, peer, allowed, replan, f)
	if err != nil {
		return nil, err
	}
	if plan := s.plan.Load(); plan != nil {
		ses.differs(plan) // it may be newer than the one that let it in
		s.news(plan.checksOf(ident))
	}
	s.config.Metrics.StreamOpened()
	s.lull.stir()
	id := ident.id
	s.turns.Log(time.Now(), hclog.Info, "opened "+id, "stream opened",
		logging.Known("node_id", id, "kind", ses.info().Kind, "stream", ses.id, "peer", peer, "envoy", ident.version)...)
	return ses, nil
}

// add looks for room and takes it, in one: else many strangers that come at once
// would all find the same.
func (s *Server) add(ident identity, peer string, allowed map[string]bool, replan func(), f *frame) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := s.plan.Load() // what follows it is told of this stream, too
	if err := s.roomLocked(plan, ident); err != nil {
		return nil, err
	}
	s.next++
	ses := newSession(s.next, ident, peer, allowed)
	ses.frame = f
	if plan != nil {
		ses.differs(plan) // learns what the Envoy is, before it is counted
	}
	s.streams.add(&open{session: ses, replan: replan}, plan)
	return ses, nil
}
