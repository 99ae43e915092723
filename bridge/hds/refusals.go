package hds

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// refusalsEvery is how often refusals of one reason are logged at most.
const refusalsEvery = time.Minute

// refusals counts what is refused, and logs it once a minute for each reason:
// who knocks all day fills no disk.
type refusals struct {
	logger  hclog.Logger
	metrics Metrics

	mu       sync.Mutex
	byReason map[string]*unsaid
}

// unsaid are the refusals of one reason since the last line about it.
type unsaid struct {
	count  int
	peer   string
	err    error
	logged time.Time
}

func newRefusals(logger hclog.Logger, metrics Metrics) *refusals {
	return &refusals{logger: logger, metrics: metrics, byReason: map[string]*unsaid{}}
}

// note counts a refusal. The first of its reason is logged at once, those of the
// minute after it later and together, with what was refused last.
func (r *refusals) note(reason, peer string, err error, now time.Time) {
	r.metrics.StreamRefused(reason)
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.byReason[reason]
	if u == nil {
		u = &unsaid{}
		r.byReason[reason] = u
	}
	u.count, u.peer, u.err = u.count+1, peer, err
	r.say(reason, u, now)
}

// flush logs what has waited for a minute.
func (r *refusals) flush(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, u := range r.byReason {
		r.say(reason, u, now)
	}
}

func (r *refusals) say(reason string, u *unsaid, now time.Time) {
	if u.count == 0 || !u.logged.IsZero() && now.Sub(u.logged) < refusalsEvery {
		return
	}
	r.logger.Warn("refused Envoys", "reason", reason, "count", u.count, "peer", u.peer, "error", u.err)
	*u = unsaid{logged: now}
}

// run flushes from time to time until ctx ends.
func (r *refusals) run(ctx context.Context) {
	tick := time.NewTicker(refusalsEvery / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.flush(now)
		}
	}
}
