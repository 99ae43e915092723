package hds

import (
	"crypto/tls"
	"errors"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Metrics is what the server tells of itself.
type Metrics interface {
	// StreamRefused counts a stream that was not let in.
	StreamRefused(reason string)
	// StreamOpened and StreamEnded count streams.
	StreamOpened()
	StreamEnded()
	// ReportChanged, ReportUnchanged and ReportInvalid count reports.
	ReportChanged()
	ReportUnchanged()
	ReportInvalid()
	// SpecifierSent counts a specifier that was written to a stream.
	SpecifierSent()
	// GuardDropped counts clusters that the last guard left out.
	GuardDropped(n int)
}

// Config is what a server needs.
type Config struct {
	// Listen are unix:// paths and host:port addresses.
	Listen []string
	// SocketMode is the mode of unix sockets, SocketGID their group; negative
	// leaves the group alone.
	SocketMode uint32
	SocketGID  int
	// TLS is the newest TLS of the TCP addresses, for each new connection; nil is
	// plain text. Unix sockets never use it.
	TLS func() *tls.Config
	// AllowedIdentities are globs; the certificate of an Envoy has to hold a URI or
	// DNS name that matches one of them. None allows every certificate that TLS
	// verifies.
	AllowedIdentities []string
	// Authorizer says what the token of a stream may do; nil wants no tokens, and
	// takes every Envoy's word.
	Authorizer Authorizer
	// MaxStreams bounds the open streams.
	MaxStreams int
	Logger     hclog.Logger
	Metrics    Metrics
	// Settled, if set, is called when many streams have begun or ended and none has for
	// a while, at most once a minute: what that has used is used no more.
	Settled func()
	// Options are further options of the gRPC server, such as interceptors.
	Options []grpc.ServerOption
	// Register, if set, is called with the gRPC server before it serves.
	Register func(*grpc.Server)
}

// check refuses a config that is half made: what protects must not be off
// because nobody thought of it.
func (c Config) check() error {
	switch {
	case len(c.Listen) == 0:
		return errors.New("no address to listen on")
	case c.MaxStreams < 1:
		return errors.New("no stream is allowed")
	case c.Logger == nil || c.Metrics == nil:
		return errors.New("no logger or no metrics")
	case len(c.AllowedIdentities) > 0 && c.TLS == nil:
		return errors.New("allowed identities without TLS")
	}
	return nil
}
