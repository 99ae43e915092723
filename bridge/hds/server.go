// Package hds serves Envoy's Health Discovery Service: it tells each Envoy what
// to probe and keeps what each said last. It knows probes and registrations,
// but nothing of Consul's checks or of what a report means for them.
package hds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/consul-hds/consul-hds/bridge/logging"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// maxMessage bounds a message of an Envoy: 5,000 endpoints are 686 kB
// (facts/envoy-hds.md 0.21).
const maxMessage = 32 << 20

const (
	// maxMetadata bounds what may come along with a stream.
	maxMetadata = 16 << 10
	// maxPerConnection bounds the streams of one connection, and so what is done for
	// one that opens them only to reset them. An Envoy has one, and for a moment two.
	maxPerConnection = 100
	// streamWindow is how many bytes of a stream may be under way before they are read,
	// and connectionWindow how many of a connection. With windows that gRPC finds by
	// measuring, each report would be answered by a ping, whose answer wakes the daemon
	// again. A stream's is the least that gRPC takes: it is what everybody can have kept
	// who waits to be let in. For a longer report it is made wider when that is read.
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
	// writeBuffer is what a connection has while it writes. Most of the time that is a
	// few bytes of flow control, with which many Envoys are answered at one moment;
	// gRPC's own 32 kB for each would make up a third of the process.
	writeBuffer = 4 << 10
	// spareConnections are those allowed beside twice as many as streams: an Envoy
	// has one, and for a moment two.
	spareConnections = 16
	// connectionIdle is how long a connection may be open without a stream.
	connectionIdle = 30 * time.Second
	// turnsAtOnce is how often the begin, and the end, of a node id's streams is
	// logged within a minute before it is taken for a loop.
	turnsAtOnce = 3
)

// Server serves HDS. Its methods may be called from any goroutine.
type Server struct {
	healthv3.UnimplementedHealthDiscoveryServiceServer

	config Config
	plan   atomic.Pointer[Plan]
	// refusals and connections are those of all listeners.
	refusals    *refusals
	connections *connections
	// turns logs that streams begin and end.
	turns *logging.Limiter
	// done is closed when the streams are to end; they are woken to see it.
	done chan struct{}
	// packer packs what streams keep.
	packer *packer
	// updates holds a signal as long as there is news.
	updates chan struct{}
	lull    *lull

	mu       sync.Mutex
	admitted int
	next     uint64
	streams  roster
	dirty    map[string]bool
	waiting  map[string]error
	// authErr is why the newest question about a token, at authAt, has no answer.
	authErr error
	authAt  time.Time
}

// New makes a server; it listens when Run is called.
func New(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	r := newRefusals(config.Logger, config.Metrics)
	s := &Server{
		refusals: r, connections: &connections{most: 2*int64(config.MaxStreams) + spareConnections, refusals: r},
		packer: newPacker(), lull: &lull{call: config.Settled},
		turns:  logging.NewLimiter(config.Logger, turnsAtOnce),
		config: config, done: make(chan struct{}), updates: make(chan struct{}, 1),
		streams: newRoster(), dirty: map[string]bool{}, waiting: map[string]error{},
	}
	for _, addr := range config.Listen {
		s.waiting[addr] = errNotListening
	}
	return s, nil
}

// Run listens and serves until ctx ends; then it ends the streams and returns
// nil. It returns an error if it cannot listen.
func (s *Server) Run(ctx context.Context) error {
	g := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		experimental.BufferPool(newBuffers()),
		grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxPerConnection),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.WriteBufferSize(writeBuffer),
		grpc.Creds(s.handshakes()),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, MaxConnectionIdle: connectionIdle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, s.config.Options...)...)
	healthv3.RegisterHealthDiscoveryServiceServer(g, s)
	if s.config.Register != nil {
		s.config.Register(g)
	}
	return s.serve(ctx, g)
}

// SetPlan tells the server what each Envoy is to probe from now on. No stream
// is sent anything before the first plan. When it returns, Observations goes by
// the new plan: who is no observer any more is not heard.
func (s *Server) SetPlan(p *Plan) {
	before := s.plan.Load()
	if before != nil && before != p {
		p.clusters.inherit(before.clusters)
	}
	s.plan.Store(p)
	s.mu.Lock()
	s.streams.follow(p)
	s.mu.Unlock()
	for _, o := range s.all() {
		o.session.differs(p) // learns what the Envoy is now
		s.news(p.turned(before, o.session.identity))
		o.replan()
	}
}

// Updates holds a signal whenever TakeNews has something.
func (s *Server) Updates() <-chan struct{} { return s.updates }

// TakeNews returns the checks whose observations have changed, or came closer
// to counting, since the last call.
func (s *Server) TakeNews() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.dirty))
	for id := range s.dirty {
		out = append(out, id)
	}
	clear(s.dirty)
	return out
}

// Observations tells what the streams that are to observe a probe have said of
// it, in order of their age.
func (s *Server) Observations(p *probe.Probe) []Observation {
	var some [4]*open
	list := s.observers(p, some[:0])
	out := make([]Observation, len(list))
	for i, o := range list {
		out[i] = o.session.observation(p)
	}
	return out
}

// close removes a stream. What it said is forgotten; what was made of it is not.
func (s *Server) close(ses *session, cause error) {
	s.mu.Lock()
	s.streams.remove(ses)
	s.mu.Unlock()
	if plan := s.plan.Load(); plan != nil {
		s.news(plan.checksOf(ses.identity))
	}
	s.config.Metrics.StreamEnded()
	s.lull.stir()
	id := ses.identity.id
	s.turns.Log(time.Now(), hclog.Info, "ended "+id, "stream ended", "node_id", id, "kind", ses.info().Kind, "stream", ses.id, "cause", plain(cause))
}

// plain says why a stream ended in the words of people: gRPC's own say that a
// context was cancelled.
func plain(cause error) string {
	if errors.Is(cause, io.EOF) || status.Code(cause) == codes.Canceled || errors.Is(cause, context.Canceled) {
		return "the Envoy ended it, or its connection was lost"
	}
	return cause.Error()
}

// checksOf lists the checks that an Envoy is to observe.
func (p *Plan) checksOf(ident identity) []string {
	_, probes := p.assign(ident)
	ids := make([]string, len(probes))
	for i, pr := range probes {
		ids[i] = pr.CheckID
	}
	return ids
}

// news notes checks for TakeNews.
func (s *Server) news(ids []string) {
	if len(ids) == 0 {
		return
	}
	s.mu.Lock()
	for _, id := range ids {
		s.dirty[id] = true
	}
	s.mu.Unlock()
	select {
	case s.updates <- struct{}{}:
	default:
	}
}

// Stream describes an open stream.
type Stream struct {
	ID     uint64
	NodeID string
	Kind   Kind
	Peer   string
	// Envoy is the Envoy's version, empty if it did not say.
	Envoy string
	// Applied says that the newest report echoes the newest specifier in full;
	// otherwise Unapplied is since when it does not.
	Applied   bool
	Unapplied time.Time
	// Probes is the number of clusters in the newest specifier.
	Probes int
	// LastReport is zero before the first.
	LastReport time.Time
	// Denied are the services that the Envoy is to observe and its token may not
	// write: it is not asked about them, and not heard.
	Denied []string
	// Dropped are the clusters that the last guard refused, with the reason.
	Dropped map[string]error
}

// Streams describes the open streams, the oldest first.
func (s *Server) Streams() []Stream {
	all := s.all()
	out := make([]Stream, len(all))
	for i, o := range all {
		out[i] = o.session.info()
	}
	return out
}

func (s *session) info() Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stream{
		ID: s.id, NodeID: s.identity.id, Kind: s.kind, Peer: s.peer, Envoy: s.identity.version,
		Applied: s.specified() && s.unapplied.IsZero(), Unapplied: s.unapplied,
		Probes: len(s.asked.probes), LastReport: s.lastReport, Dropped: s.dropped, Denied: s.denied(),
	}
}

// Ready returns nil when every address is listened on, else what is missing.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.waiting {
		return fmt.Errorf("listening for Envoys: %w", err)
	}
	return nil
}
