package hds

import (
	"errors"
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

// refusals counts what is refused, and logs it once a minute for each reason: who
// knocks all day fills no disk.
type refusals struct {
	lines   *logging.Limiter
	metrics Metrics
}

func newRefusals(logger hclog.Logger, metrics Metrics) *refusals {
	return &refusals{lines: logging.NewLimiter(logger, 1), metrics: metrics}
}

// note counts a refusal. The first of its reason is logged at once, those of the
// minute after it later and together, with what was refused last.
func (r *refusals) note(reason, peer string, err error, now time.Time) {
	r.metrics.StreamRefused(reason)
	r.lines.Log(now, hclog.Warn, reason, "refused Envoys", "reason", reason, "peer", peer, "error", err)
}
