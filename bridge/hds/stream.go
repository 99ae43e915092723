package hds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// firstMessageTimeout is how long a stream may be open without a word.
	firstMessageTimeout = 5 * time.Second
	// maxFirst bounds the first message, which is 61 kB of a real Envoy
	// (facts/envoy-hds.md 0.20), and maxNodeID the id in it.
	maxFirst  = 1 << 20
	maxNodeID = 1024
	// sendTimeout is how long one Send may block before the stream is given up.
	sendTimeout = 10 * time.Second
	// gatherQuiet and gatherMost bound how long a change waits for others: the
	// first goes out at once, those that follow it within gatherQuiet are
	// gathered for at most gatherMost.
	gatherQuiet = 250 * time.Millisecond
	gatherMost  = time.Second
)

var (
	errSendBlocked  = errors.New("the Envoy has not read its specifier for 10 s")
	errNoFirst      = errors.New("no health check request within 5 s")
	errBadReport    = errors.New("bad report")
	errShuttingDown = errors.New("consul-hds is shutting down")
)

// stream runs one stream: a reader, a sender, and the handler that decides and
// never blocks on either.
type stream struct {
	server  *Server
	grpc    grpc.ServerStream
	session *session
	// log names the stream in each line.
	log   hclog.Logger
	token Token
	// end ends the stream with a cause.
	end context.CancelCauseFunc
	// slot holds the newest specifier that is not sent yet.
	slot chan *healthv3.HealthCheckSpecifier
	// poke wakes the handler: the plan changed, or a held back cluster is free.
	poke  chan struct{}
	pacer pacer
	// replanned wakes who keeps the stream authorized.
	replanned chan struct{}
}

// StreamHealthCheck implements the Health Discovery Service. It returns when
// the Envoy ends the stream, when it misbehaves, or when the server shuts down.
func (s *Server) StreamHealthCheck(g healthv3.HealthDiscoveryService_StreamHealthCheckServer) error {
	peer := peerName(g.Context())
	if !s.admit() {
		return s.refuse(peer, refused(reasonStreams, codes.ResourceExhausted, fmt.Errorf("consul-hds serves at most %d streams", s.config.MaxStreams)))
	}
	defer s.leave()
	ctx, cancel := context.WithCancelCause(g.Context())
	defer cancel(nil)
	st := &stream{
		server: s, grpc: g, end: cancel, slot: make(chan *healthv3.HealthCheckSpecifier, 1),
		poke: make(chan struct{}, 1), replanned: make(chan struct{}, 1),
	}

	var f frame
	ident, allowed, err := st.enter(ctx, &f)
	if err != nil {
		return s.refuse(peer, err)
	}
	st.session = s.open(ident, peer, allowed, st.replan, &f)
	st.log = s.config.Logger.With("node_id", ident.node.GetId(), "stream", st.session.id)
	err = st.serve(ctx, &f)
	s.close(st.session, err)
	var no *refusal
	switch {
	case errors.As(err, &no), errors.Is(err, errShuttingDown):
		return s.refuse(peer, err)
	case errors.Is(err, errBadReport):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, errSendBlocked):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return nil
}

// enter finds out who wants to come in, and with which rights. Nothing that a
// stream says is read before its token is known to exist.
func (st *stream) enter(ctx context.Context, f *frame) (ident identity, allowed map[string]bool, err error) {
	s := st.server
	if st.token, err = s.authenticate(ctx); err != nil {
		return ident, nil, err
	}
	if ident, err = st.first(ctx, f); err != nil {
		if errors.Is(err, errShuttingDown) {
			return ident, nil, err
		}
		return ident, nil, refused(reasonFirst, codes.InvalidArgument, err)
	}
	if !s.welcome(ident) {
		return ident, nil, refused(reasonStrangers, codes.ResourceExhausted, fmt.Errorf("half of the %d streams are those of unknown Envoys already", s.config.MaxStreams))
	}
	allowed, err = s.authorize(ctx, st.token, ident)
	return ident, allowed, err
}

// first waits for the health check request that begins a stream.
func (st *stream) first(ctx context.Context, f *frame) (identity, error) {
	got := make(chan error, 1)
	go func() { got <- st.grpc.RecvMsg(f) }()
	timer := time.NewTimer(firstMessageTimeout)
	defer timer.Stop()
	select {
	case err := <-got:
		if err != nil {
			return identity{}, fmt.Errorf("receiving the first message: %w", err)
		}
	case <-timer.C:
		return identity{}, errNoFirst
	case <-ctx.Done():
		return identity{}, context.Cause(ctx)
	case <-st.server.done:
		return identity{}, errShuttingDown
	}
	defer f.clear()
	return identify(f.last)
}

// identify reads who the Envoy is from its first message.
func identify(b []byte) (identity, error) {
	if len(b) > maxFirst {
		return identity{}, fmt.Errorf("the first message has %d bytes, more than %d", len(b), maxFirst)
	}
	m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	if err := proto.Unmarshal(b, m); err != nil {
		return identity{}, fmt.Errorf("decoding the first message: %w", err)
	}
	node := m.GetHealthCheckRequest().GetNode()
	switch {
	case node.GetId() == "":
		return identity{}, errors.New("the first message has to be a health check request that names node.id")
	case len(node.GetId()) > maxNodeID:
		return identity{}, fmt.Errorf("node.id has %d bytes, more than %d", len(node.GetId()), maxNodeID)
	case strings.ContainsFunc(node.GetId(), unicode.IsControl):
		return identity{}, errors.New("node.id has control characters")
	}
	return newIdentity(node), nil
}

// serve runs the reader and the sender, and is itself the handler.
func (st *stream) serve(ctx context.Context, f *frame) error {
	*f = frame{} // the first message is of no more use
	go st.read(f)
	go st.send(ctx)
	go st.keepAuthorized(ctx)
	st.replan()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.server.done:
			return errShuttingDown
		case <-st.poke:
			timer.Reset(st.step(time.Now(), true))
		case <-timer.C:
			timer.Reset(st.step(time.Now(), false))
		}
	}
}

// step hands a new specifier to the sender if one is due, and returns how long
// the handler may sleep. poked says that there may be a change.
func (st *stream) step(now time.Time, poked bool) time.Duration {
	plan := st.server.plan.Load()
	if plan == nil || !st.session.differs(plan) || st.session.undecided(plan) {
		return time.Hour
	}
	if poked {
		st.pacer.note(now)
	}
	if wait := st.pacer.wait(now); wait > 0 {
		return wait
	}
	st.pacer.sent(now)
	spec, dropped := st.session.commit(plan, now)
	for name, err := range dropped {
		if errors.Is(err, errHarmful) {
			st.server.config.Metrics.GuardDropped(1)
		}
		st.log.Debug("leaving out a cluster", "cluster", name, "error", err)
	}
	select {
	case <-st.slot:
	default:
	}
	st.slot <- spec
	return time.Hour
}

// read takes reports in as fast as they come.
func (st *stream) read(f *frame) {
	for {
		if err := st.grpc.RecvMsg(f); err != nil {
			st.end(err)
			return
		}
		dirty, freed, err := st.session.report(f, time.Now())
		if err != nil {
			st.server.config.Metrics.ReportInvalid()
			st.end(fmt.Errorf("%w: %w", errBadReport, err))
			return
		}
		if f.equal {
			st.server.config.Metrics.ReportUnchanged()
		} else {
			st.server.config.Metrics.ReportChanged()
		}
		if st.log.IsTrace() { // else the arguments would be allocated for each report
			st.log.Trace("report received", "bytes", len(f.last), "unchanged", f.equal)
		}
		if !f.equal && st.session.stranger() {
			f.clear() // it may be as long as a message may be, and is of no use
		}
		st.server.news(dirty)
		if freed {
			st.wake()
		}
	}
}

// send sends the newest specifier. A blocked Send ends only when the handler
// returns (facts/envoy-hds.md 0c).
func (st *stream) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case spec := <-st.slot:
			blocked := time.AfterFunc(sendTimeout, func() { st.end(errSendBlocked) })
			err := st.grpc.SendMsg(spec)
			blocked.Stop()
			if err != nil {
				st.end(fmt.Errorf("sending a specifier: %w", err))
				return
			}
			st.server.config.Metrics.SpecifierSent()
			st.log.Trace("specifier sent", "clusters", len(spec.GetClusterHealthChecks()))
		}
	}
}

// wake makes the handler look at the plan again.
func (st *stream) wake() {
	select {
	case st.poke <- struct{}{}:
	default:
	}
}

// replan tells the stream's roles of a new plan.
func (st *stream) replan() {
	select {
	case st.replanned <- struct{}{}:
	default:
	}
	st.wake()
}

// pacer decides when a changed specifier goes out. The zero value has sent
// nothing yet.
type pacer struct {
	// last is when the last specifier went out; first and latest are when the
	// changes began that it does not hold, and when the newest of them came.
	last, first, latest time.Time
}

// note takes a change in.
func (p *pacer) note(now time.Time) {
	if p.first.IsZero() {
		p.first = now
	}
	p.latest = now
}

// wait is how long the changes that were noted have to wait still.
func (p *pacer) wait(now time.Time) time.Duration {
	if !p.first.Before(p.last.Add(gatherQuiet)) {
		return 0
	}
	return min(p.latest.Add(gatherQuiet).Sub(now), p.first.Add(gatherMost).Sub(now))
}

// sent notes that a specifier went out with all changes so far.
func (p *pacer) sent(now time.Time) { *p = pacer{last: now} }
