package hds

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const (
	// recheckEvery is how long a verdict about a stream's token stands at most,
	// while Consul can be asked. With what the authorizer and the agent keep, a
	// revoked token loses its streams within a minute.
	recheckEvery = 15 * time.Second
	// askAgain is the pause after a question that nobody could answer.
	askAgain = 2 * time.Second
)

// keepAuthorized is the fourth role, of a stream with a token: it asks again what
// the token may do, from time to time and when the plan has changed, so that the
// handler never waits for Consul.
func (st *stream) keepAuthorized(ctx context.Context) {
	timer := time.NewTimer(recheck())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-st.replanned:
			if st.session.covered(st.server.plan.Load()) {
				continue
			}
		case <-timer.C:
		}
		timer.Reset(st.reauthorize(ctx))
	}
}

// recheck spreads the questions of streams that began together.
func recheck() time.Duration { return recheckEvery - rand.N(recheckEvery/5) }

// reauthorize takes over what the stream's token may do now, and returns the
// pause until it is to be asked again. Nothing but a verdict ends the stream: in
// Consul's trouble the last one stands.
func (st *stream) reauthorize(ctx context.Context) time.Duration {
	allowed, err := st.server.authorize(ctx, st.token, st.session.identity)
	var no *refusal
	switch {
	case err == nil:
		st.granted(allowed)
		return recheck()
	case errors.As(err, &no) && no.code != codes.Unavailable:
		st.end(err)
	case ctx.Err() != nil: // the stream is over
	default:
		st.log().Debug("a stream's rights stand as they are", "error", err)
	}
	return askAgain
}

// granted takes a verdict over.
func (st *stream) granted(allowed map[string]bool) {
	if !st.session.allow(allowed) {
		return
	}
	st.server.news(st.server.plan.Load().checksOf(st.session.identity))
	st.wake()
}

// allow takes over what the stream's token may write, and tells whether that is
// new.
func (s *session) allow(allowed map[string]bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = !maps.Equal(s.allowed, allowed)
	s.allowed = allowed
	return changed
}

// covered says whether the stream's token was asked about for all that the plan
// wants of it.
func (s *session) covered(p *Plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.coveredLocked(p)
}

// undecided says whether the stream's first specifier has to wait for what its
// token may do: an Envoy that came before the first plan would be sent none of
// what it probes already, and begin anew.
func (s *session) undecided(p *Plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.specified() && s.allowed != nil && !s.coveredLocked(p)
}

func (s *session) coveredLocked(p *Plan) bool {
	for _, name := range p.services(s.identity) {
		if _, asked := s.allowed[name]; !asked {
			return false
		}
	}
	return true
}

// may says whether the stream may observe a service. The caller holds mu.
func (s *session) may(service string) bool { return s.allowed == nil || s.allowed[service] }

// trusted says whether the stream may observe a service.
func (s *session) trusted(service string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.may(service)
}

// assign tells what the Envoy is to probe by the plan, as far as its token goes.
// The caller holds mu.
func (s *session) assign(p *Plan) []*probe.Probe {
	var probes []*probe.Probe
	s.kind, probes = p.assign(s.identity)
	if s.allowed == nil {
		return probes
	}
	return slices.DeleteFunc(slices.Clone(probes), func(pr *probe.Probe) bool { return !s.may(pr.Service) })
}

// denied are the services that the stream's token may not write, in order. The
// caller holds mu.
func (s *session) denied() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.allowed)) {
		if !s.allowed[name] {
			out = append(out, name)
		}
	}
	return out
}
