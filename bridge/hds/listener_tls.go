package hds

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/ryanuber/go-glob"
	"google.golang.org/grpc/credentials"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// ListenerTLS is what the files of the TCP listeners' TLS hold, in PEM.
type ListenerTLS struct {
	Cert, Key []byte
	// ClientCA signed the certificates of Envoys; nil wants none of them.
	ClientCA []byte
}

// Config makes the TLS of a server, or says what is wrong with a file. No session
// is ever resumed: each connection is judged by the files that are there now.
func (t ListenerTLS) Config() (*tls.Config, error) {
	if _, err := probe.Certificates(t.Cert); err != nil {
		return nil, fmt.Errorf("cert_file: %w", err)
	}
	pair, err := tls.X509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
	}
	if t.ClientCA == nil {
		return c, nil
	}
	authorities, err := probe.Certificates(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client_ca_file: %w", err)
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	for _, ca := range authorities {
		c.ClientCAs.AddCert(ca)
	}
	return c, nil
}

// listenerCredentials are the newest TLS for each new connection, with a look at
// the names that an Envoy's certificate holds.
func listenerCredentials(newest func() *tls.Config, allowed []string) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := newest()
			if len(allowed) == 0 {
				return c, nil
			}
			c = c.Clone()
			c.VerifyConnection = func(s tls.ConnectionState) error { return checkIdentity(s, allowed) }
			return c, nil
		},
	})
}

// errIdentity marks a certificate of the right CA and the wrong name.
var errIdentity = errors.New("hds.tls.allowed_identities has none of the certificate's names")

// checkIdentity says whether one of the names that a verified certificate holds
// is allowed. No certificate, and one that was not verified, have none.
func checkIdentity(s tls.ConnectionState, allowed []string) error {
	if len(s.VerifiedChains) == 0 {
		return fmt.Errorf("%w: there is no verified one", errIdentity)
	}
	names := identities(s.PeerCertificates[0])
	for _, name := range names {
		for _, pattern := range allowed {
			if ofOneKind(pattern, name) && glob.Glob(pattern, name) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %.200q", errIdentity, names)
}

// ofOneKind says whether a glob is meant for names of this kind. A URI has a colon
// and a DNS name has none, so that a glob without one must not reach into a URI,
// such as "*.envoys.example" into "spiffe://dc1/x.envoys.example". A lone star is
// meant for both.
func ofOneKind(pattern, name string) bool {
	return pattern == "*" || strings.Contains(pattern, ":") == strings.Contains(name, ":")
}

// identities are the URI and DNS names of a certificate, the latter in lower
// case. Text under DNS that can be no DNS name is left out, and so is a URI without
// a scheme: each could be written like the other.
func identities(c *x509.Certificate) (out []string) {
	for _, u := range c.URIs {
		if u.IsAbs() {
			out = append(out, u.String())
		}
	}
	for _, name := range c.DNSNames {
		if name = strings.ToLower(name); !strings.ContainsFunc(name, notInDNS) {
			out = append(out, name)
		}
	}
	return out
}

func notInDNS(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-._*", r)
}
