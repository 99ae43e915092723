package hds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
)

var (
	errSendBlocked  = errors.New("the Envoy has not read its specifier for 10 s")
	errNoFirst      = errors.New("no health check request within 5 s")
	errBadReport    = errors.New("bad report")
	errShuttingDown = errors.New("consul-hds is shutting down")
)

// stream runs one stream: a reader, a sender, and the handler that decides and
// never blocks on either. There are hundreds, and most of the time nothing happens
// on them: what is not always needed is made when it is.
type stream struct {
	server  *Server
	grpc    grpc.ServerStream
	session *session
	token   Token
	// cause is why the stream is to end, nil as long as it is not.
	cause atomic.Pointer[error]
	// poke wakes the handler: the plan changed, a held back cluster is free, or the
	// stream is to end.
	poke  chan struct{}
	pacer pacer
	// replanned wakes who keeps the stream authorized; nil if nobody does.
	replanned chan struct{}

	outbox outbox
}

// StreamHealthCheck implements the Health Discovery Service. It returns when
// the Envoy ends the stream, when it misbehaves, or when the server shuts down.
func (s *Server) StreamHealthCheck(g healthv3.HealthDiscoveryService_StreamHealthCheckServer) error {
	peer := peerName(g.Context())
	if !s.admit() {
		return s.refuse(peer, refused(reasonStreams, codes.ResourceExhausted, fmt.Errorf("consul-hds serves at most %d streams", s.config.MaxStreams)))
	}
	defer s.leave()
	// The context ends when this returns, and all that waits for the stream with it.
	ctx := g.Context()
	st := &stream{server: s, grpc: g, poke: make(chan struct{}, 1)}
	if s.config.Authorizer != nil {
		st.replanned = make(chan struct{}, 1)
	}

	f := frame{packer: s.packer}
	ident, allowed, err := st.enter(ctx, &f)
	if err != nil {
		return s.refuse(peer, err)
	}
	if st.session, err = s.open(ident, peer, allowed, st.replan, &f); err != nil {
		return s.refuse(peer, err)
	}
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
	if ident, err = st.first(f); err != nil {
		if errors.Is(err, errShuttingDown) {
			return ident, nil, err
		}
		return ident, nil, refused(reasonFirst, codes.InvalidArgument, err)
	}
	if err = s.room(ident); err != nil {
		return ident, nil, err
	}
	allowed, err = s.authorize(ctx, st.token, ident)
	return ident, allowed, err
}

// entry is what became of a stream's first message.
type entry struct {
	ident identity
	err   error
}

// first waits for the health check request that begins a stream.
func (st *stream) first(f *frame) (identity, error) {
	got := make(chan entry, 2)
	go func() { got <- st.receiveFirst(f) }() // its stack grows, and goes with it
	late := time.AfterFunc(firstMessageTimeout, func() { got <- entry{err: errNoFirst} })
	defer late.Stop()
	select { // the end of the context ends the reception
	case e := <-got:
		return e.ident, e.err
	case <-st.server.done:
		return identity{}, errShuttingDown
	}
}

// receiveFirst receives the first message, and keeps of it who the Envoy is.
func (st *stream) receiveFirst(f *frame) entry {
	if err := st.grpc.RecvMsg(f); err != nil {
		return entry{err: fmt.Errorf("receiving the first message: %w", err)}
	}
	defer f.clear()
	ident, err := identify(f.last)
	return entry{ident, err}
}

// identify reads who the Envoy is from its first message.
func identify(b []byte) (identity, error) {
	if len(b) > maxFirst {
		return identity{}, fmt.Errorf("the first message has %d bytes, more than %d", len(b), maxFirst)
	}
	node, err := readNode(b)
	switch {
	case err != nil:
		return identity{}, fmt.Errorf("decoding the first message: %w", err)
	case node.GetId() == "":
		return identity{}, errors.New("the first message has to be a health check request that names node.id")
	case len(node.GetId()) > maxNodeID:
		return identity{}, fmt.Errorf("node.id has %d bytes, more than %d", len(node.GetId()), maxNodeID)
	case strings.ContainsFunc(node.GetId(), unicode.IsControl):
		return identity{}, errors.New("node.id has control characters")
	}
	return newIdentity(node), nil
}

// serve runs the other roles, and is itself the handler.
func (st *stream) serve(ctx context.Context, f *frame) error {
	go st.read(f)
	if st.replanned != nil {
		go st.keepAuthorized(ctx)
	}
	st.replan()
	for pause := time.Duration(0); ; {
		poked := st.rest(pause)
		if err := st.over(); err != nil {
			return err
		}
		pause = st.step(time.Now(), poked)
	}
}

// rest waits until the stream is poked, and no longer than the pause if there is
// one. It need not look at the context: when that ends the reader says so.
func (st *stream) rest(pause time.Duration) (poked bool) {
	if pause == 0 {
		<-st.poke
		return true
	}
	select {
	case <-st.poke:
		return true
	case <-time.After(pause):
		return false
	}
}

// step hands a new specifier to the sender if one is due, and returns how long it
// has to wait if it is not due yet. poked says that there may be a change.
func (st *stream) step(now time.Time, poked bool) time.Duration {
	plan := st.server.plan.Load()
	if plan == nil || !st.session.differs(plan) || st.session.undecided(plan) {
		return 0
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
		st.log().Debug("leaving out a cluster", "cluster", name, "error", err)
	}
	st.post(spec)
	return 0
}

// read takes reports in as fast as they come.
func (st *stream) read(f *frame) {
	for {
		if err := st.grpc.RecvMsg(f); err != nil {
			st.end(err)
			return
		}
		now := time.Now()
		dirty, freed, err := st.session.report(f, now)
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
		if st.server.config.Logger.IsTrace() { // else the arguments would be allocated for each report
			st.log().Trace("report received", "bytes", f.size(), "unchanged", f.equal)
		}
		if !f.equal && st.session.stranger() {
			f.clear() // it may be as long as a message may be, and is of no use
		}
		f.rest(now, st.session.probes)
		st.server.news(dirty)
		if freed {
			st.wake()
		}
	}
}

// log is the server's logger with the name of the stream. It is made when it is
// needed.
func (st *stream) log() hclog.Logger {
	return st.server.config.Logger.With("node_id", st.session.identity.id, "stream", st.session.id)
}

// end makes the handler return for a reason; the first one counts.
func (st *stream) end(cause error) {
	st.cause.CompareAndSwap(nil, &cause)
	st.wake()
}

// over is why the stream is to end, nil if it is not.
func (st *stream) over() error {
	if cause := st.cause.Load(); cause != nil {
		return *cause
	}
	select {
	case <-st.server.done:
		return errShuttingDown
	default:
		return nil
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
