package bridge

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Who may speak for a service, of the ways there are.
const (
	// AuthNone takes every Envoy's word for its node id.
	AuthNone = "none"
	// AuthConsul asks Consul what an Envoy's token may write.
	AuthConsul = "consul"
)

// makeAuthorizer makes what says what the tokens of Envoys may do; nil if none
// are wanted.
func (b *Bridge) makeAuthorizer() (hds.Authorizer, error) {
	switch b.config.HDS.Auth {
	case "", AuthNone:
		return nil, nil
	case AuthConsul:
		c := b.config.Consul
		return newCautiousAuthorizer(newAgentAuthorizer(b.transport, c.Namespace, c.Partition), b.config.HDS.MaxStreams)
	}
	return nil, fmt.Errorf("hds.auth %q is not known", b.config.HDS.Auth)
}

// makeListenerTLS makes what gives the newest TLS of the TCP addresses; nil is
// plain text.
func (b *Bridge) makeListenerTLS() (newest func() *tls.Config, err error) {
	c := b.config.HDS.TLS
	if c.CertFile == "" {
		return nil, nil
	}
	if b.listenerTLS, err = newListenerTLS(c); err != nil {
		return nil, err
	}
	return b.listenerTLS.current.Load, nil
}

// accessProblems are what keeps Envoys from coming in that should.
func (b *Bridge) accessProblems(now time.Time) (out []probe.Problem) {
	if err := b.listenerTLS.problem(now); err != nil {
		out = append(out, probe.Problem{Source: probe.SourceConfig, Message: err.Error()})
	}
	if err := b.server.AuthError(); err != nil {
		out = append(out, probe.Problem{Source: probe.SourceConsul, Message: fmt.Sprintf(
			"Consul cannot be asked what the tokens of Envoys may do: new streams are refused, open ones go on: %s", err)})
	}
	return out
}

// maxNamed is how many services one problem names.
const maxNamed = 10

// deniedProblem tells of the services that an Envoy's token may not write.
func deniedProblem(s hds.Stream) string {
	return fmt.Sprintf("the token of Envoy %q needs service:write on %s: it is not asked about them, and not heard",
		s.NodeID, hds.Some(s.Denied, maxNamed))
}
