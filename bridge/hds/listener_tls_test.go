package hds

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// secured is a running server on TCP with mutual TLS, and on a unix socket.
type secured struct {
	*bed
	ca     *authority
	addr   string
	newest atomic.Pointer[tls.Config]
}

func serveTLS(t *testing.T, allowed ...string) *secured {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &secured{ca: newAuthority(t), addr: free.Addr().String()}
	require.NoError(t, free.Close())
	s.use(s.ca, s.ca)
	s.bed = newBed(t, Config{
		Listen: []string{s.addr, "unix://" + filepath.Join(shortDir(t), "hds.sock")},
		TLS:    s.newest.Load, AllowedIdentities: allowed,
	})
	s.target = "passthrough:///" + s.addr
	s.run()
	s.await("to listen", func() bool { return s.Ready() == nil })
	plan, _ := planOf(map[string]map[string]string{"a": asHTTP})
	s.SetPlan(plan)
	return s
}

// use makes the server show a certificate of one CA and want one of another.
func (s *secured) use(own, clients *authority) {
	files := ListenerTLS{ClientCA: clients.pem}
	files.Cert, files.Key = own.issue(nil)
	c, err := files.Config()
	require.NoError(own.t, err)
	s.newest.Store(c)
}

// entersBy says whether a stream that comes with this TLS gets its specifier.
func (s *secured) enters(c *tls.Config) {
	s.t.Helper()
	s.options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(c))}
	e := s.connect("n1")
	assert.Len(s.t, e.spec().ClusterHealthChecks, 1)
	e.leave()
}

// knock begins a connection as an attacker does, and says whether the server
// speaks HTTP/2 with it.
func (s *secured) knock(c *tls.Config) bool {
	s.t.Helper()
	raw, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	defer raw.Close()
	require.NoError(s.t, raw.SetDeadline(time.Now().Add(patience)))
	conn := raw
	if c != nil {
		conn = tls.Client(raw, c)
	}
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return false
	}
	frame := make([]byte, 9) // the header of the server's SETTINGS
	_, err = io.ReadFull(conn, frame)
	return err == nil && frame[3] == 4
}

func TestARefusedCertificateIsNamed(t *testing.T) {
	s := serveTLS(t)
	for name, change := range map[string]func(*x509.Certificate){
		`that claims the name "spiffe://dc1/web"`: named("spiffe://dc1/web"),
		"without names": func(c *x509.Certificate) { c.DNSNames = nil },
	} {
		before := s.counts.get("refused " + reasonTLS)
		assert.False(t, s.knock(s.ca.client(s.ca, func(c *x509.Certificate) {
			change(c)
			c.NotAfter = time.Now().Add(-time.Second)
		})))
		s.await("to refuse it", func() bool { return s.counts.get("refused "+reasonTLS) == before+1 })
		shown := s.Refusals(time.Now())
		require.Len(t, shown, 1)
		assert.ErrorContains(t, shown[0].Err, "a certificate "+name+": tls: failed to verify certificate: x509: certificate has expired")
	}
}

func TestStrangersGetThroughNoHandshake(t *testing.T) {
	s := serveTLS(t, "spiffe://dc1/*", "*.envoys.example")
	other := newAuthority(t)
	good := named("spiffe://dc1/web")
	old := s.ca.client(s.ca, good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	talker := s.ca.client(s.ca, good)
	talker.NextProtos = []string{"http/1.1"}
	silent := s.ca.client(s.ca, good)
	silent.NextProtos = nil
	attacks := map[string]struct {
		with   *tls.Config
		reason string
	}{
		"plain text":           {nil, reasonTLS},
		"no certificate":       {s.ca.client(nil, nil), reasonTLS},
		"another CA":           {s.ca.client(other, good), reasonTLS},
		"a CA of its own name": {s.ca.client(newAuthority(t), good), reasonTLS},
		"expired": {s.ca.client(s.ca, func(c *x509.Certificate) {
			good(c)
			c.NotAfter = time.Now().Add(-time.Second)
		}), reasonTLS},
		"not yet valid": {s.ca.client(s.ca, func(c *x509.Certificate) {
			good(c)
			c.NotBefore = time.Now().Add(time.Minute)
		}), reasonTLS},
		"for servers only": {s.ca.client(s.ca, func(c *x509.Certificate) {
			good(c)
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), reasonTLS},
		"TLS 1.1":             {old, reasonTLS},
		"another protocol":    {talker, reasonTLS},
		"no protocol":         {silent, reasonTLS},
		"another URI":         {s.ca.client(s.ca, named("spiffe://dc2/web")), reasonIdentity},
		"a longer scheme":     {s.ca.client(s.ca, named("xspiffe://dc1/web")), reasonIdentity},
		"another name":        {s.ca.client(s.ca, func(c *x509.Certificate) { c.DNSNames = []string{"envoys.example"} }), reasonIdentity},
		"a URI as DNS name":   {s.ca.client(s.ca, func(c *x509.Certificate) { c.DNSNames = []string{"spiffe://dc1/web"} }), reasonIdentity},
		"a DNS name in a URI": {s.ca.client(s.ca, named("spiffe://dc2/web.envoys.example")), reasonIdentity},
		"a DNS name as URI":   {s.ca.client(s.ca, named("web.envoys.example")), reasonIdentity},
		"the name as CN":      {s.ca.client(s.ca, func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "a.envoys.example" }), reasonIdentity},
		"no name whatsoever":  {s.ca.client(s.ca, func(c *x509.Certificate) { c.DNSNames = nil }), reasonIdentity},
	}
	for name, a := range attacks {
		before := s.counts.get("refused " + a.reason)
		assert.False(t, s.knock(a.with), name)
		s.await("to count "+name, func() bool { return s.counts.get("refused "+a.reason) == before+1 })
	}
	assert.Empty(t, s.Streams())
	assert.True(t, s.knock(s.ca.client(s.ca, good)), "the attacker's tool works")
	s.enters(s.ca.client(s.ca, good))
	s.enters(s.ca.client(s.ca, func(c *x509.Certificate) { c.DNSNames = []string{"A.Envoys.example"} }))
}

func TestWithoutIdentitiesEachCertificateOfTheCAIsAllowed(t *testing.T) {
	s := serveTLS(t)
	assert.False(t, s.knock(s.ca.client(newAuthority(t), nil)))
	s.enters(s.ca.client(s.ca, nil))
	s.options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(s.ca.client(s.ca, named("spiffe://dc1/web"))))}
	s.connect("n1").spec()
	st := s.Streams()
	assert.Contains(t, st[len(st)-1].Peer, `, "spiffe://dc1/web"`)
	assert.Contains(t, st[len(st)-1].Peer, "tls:127.0.0.1:")
}

func TestChangedFilesJudgeTheNextConnection(t *testing.T) {
	s := serveTLS(t)
	first := s.ca.client(s.ca, nil)
	first.ClientSessionCache = tls.NewLRUClientSessionCache(10)
	s.enters(first)
	next := newAuthority(t)
	s.use(s.ca, next)
	assert.False(t, s.knock(first), "what was good before, resumed or not")
	s.enters(s.ca.client(next, nil))
	s.use(next, s.ca)
	assert.False(t, s.knock(first), "it does not trust the new server")
	s.enters(next.client(s.ca, nil))
}

func TestNoSessionIsResumed(t *testing.T) {
	s := serveTLS(t, "hds.local")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := s.ca.client(s.ca, nil)
		c.MaxVersion, c.ClientSessionCache = version, tls.NewLRUClientSessionCache(10)
		for range 3 {
			conn, err := tls.Dial("tcp", s.addr, c)
			require.NoError(t, err)
			b := make([]byte, 1)
			_, err = conn.Read(b) // what a ticket would come before
			require.NoError(t, err)
			assert.False(t, conn.ConnectionState().DidResume)
			require.NoError(t, conn.Close())
		}
	}
}

func TestUnixSocketsNeverUseTLS(t *testing.T) {
	s := serveTLS(t, "spiffe://dc1/*")
	s.target = s.config.Listen[1]
	s.options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	assert.Len(t, s.connect("n1").spec().ClusterHealthChecks, 1)
	assert.Contains(t, s.Streams()[0].Peer, "unix, pid ")
}

func TestFilesThatAreNoTLS(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(nil)
	_, otherKey := ca.issue(nil)
	for name, files := range map[string]ListenerTLS{
		"cert_file: it holds nothing":        {Cert: []byte("garbage"), Key: key},
		"cert_file and key_file: ":           {Cert: cert, Key: otherKey},
		"cert_file: block 1 is a PRIVATE":    {Cert: key, Key: key},
		"client_ca_file: it holds nothing":   {Cert: cert, Key: key, ClientCA: []byte{}},
		"client_ca_file: of 2 blocks only 1": {Cert: cert, Key: key, ClientCA: append(ca.pem[:len(ca.pem):len(ca.pem)], "-----BEGIN CERTIFICATE-----\nx\n"...)},
	} {
		_, err := files.Config()
		require.ErrorContains(t, err, name)
	}
}

// Those who only connect take no more than their share, and not for long.
func TestConnectionsAreBounded(t *testing.T) {
	b := newBed(t, Config{Listen: []string{"unix://" + filepath.Join(shortDir(t), "hds.sock")}, MaxStreams: 1})
	b.target = b.config.Listen[0]
	b.run()
	b.await("to listen", func() bool { return b.Ready() == nil })
	var idle []net.Conn
	for range 2 + spareConnections {
		c, err := net.Dial("unix", b.target[len("unix://"):])
		require.NoError(t, err)
		idle = append(idle, c)
	}
	more, err := net.Dial("unix", b.target[len("unix://"):])
	require.NoError(t, err)
	defer more.Close()
	require.NoError(t, more.SetDeadline(time.Now().Add(patience)))
	_, err = more.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, 1, b.counts.get("refused connections"))
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	b.await("to let one in again", func() bool { return b.connections.open.Load() == 0 })
	b.connect("n1").spec()
}
