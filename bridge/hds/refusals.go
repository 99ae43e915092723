package hds

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/consul-hds/consul-hds/bridge/logging"
)

// Why a connection or a stream is refused; docs/metrics.md tells of each.
const (
	reasonStreams     = "max_streams"
	reasonStrangers   = "strangers"
	reasonFirst       = "first_message"
	reasonConnections = "connections"
	reasonTLS         = "tls"
	reasonIdentity    = "identity"
	reasonToken       = "token"
	reasonPermission  = "permission"
	reasonConsul      = "consul"
)

// refusal is why a stream is not let in, or let go on.
type refusal struct {
	reason string
	code   codes.Code
	cause  error
}

func refused(reason string, code codes.Code, cause error) error {
	return &refusal{reason, code, cause}
}

// Error implements error.
func (r *refusal) Error() string { return r.cause.Error() }

// refuse counts and logs why a stream ends, if it is a refusal, and makes of it
// what the Envoy is told.
func (s *Server) refuse(peer string, err error) error {
	var no *refusal
	switch {
	case errors.As(err, &no):
		s.refusals.note(no.reason, peer, err, time.Now())
		return status.Error(no.code, err.Error())
	case errors.Is(err, errShuttingDown):
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.FromContextError(err).Err() // the Envoy has gone
}

// refusalsShown is how long people are shown a refusal: an Envoy that is refused
// comes back within half a minute.
const refusalsShown = 5 * time.Minute

// Refusal is the newest refusal of a reason, for people.
type Refusal struct {
	// Reason is a label of consul_hds_streams_refused_total (docs/metrics.md).
	Reason string
	// Count is how many of that reason there were since the start.
	Count int
	At    time.Time
	Peer  string
	// Err says more. It holds no secret.
	Err error
}

// Refusals are those of the last five minutes, one of each reason, in order of
// these.
func (s *Server) Refusals(now time.Time) []Refusal { return s.refusals.recent(now) }

// refusals counts what is refused, remembers the newest of each reason, and logs
// it once a minute: who knocks all day fills no disk.
type refusals struct {
	lines   *logging.Limiter
	metrics Metrics

	mu     sync.Mutex
	newest map[string]Refusal
}

func newRefusals(logger hclog.Logger, metrics Metrics) *refusals {
	return &refusals{lines: logging.NewLimiter(logger, 1), metrics: metrics, newest: map[string]Refusal{}}
}

// recent are the newest of each reason that people are shown.
func (r *refusals) recent(now time.Time) (out []Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(r.newest)) {
		if n := r.newest[reason]; now.Sub(n.At) < refusalsShown {
			out = append(out, n)
		}
	}
	return out
}

// note counts a refusal. The first of its reason is logged at once, those of the
// minute after it later and together, with what was refused last.
func (r *refusals) note(reason, peer string, err error, now time.Time) {
	r.mu.Lock()
	r.newest[reason] = Refusal{Reason: reason, Count: r.newest[reason].Count + 1, At: now, Peer: peer, Err: err}
	r.mu.Unlock()
	r.metrics.StreamRefused(reason)
	r.lines.Log(now, hclog.Warn, reason, "refused Envoys", "reason", reason, "peer", peer, "error", err)
}
