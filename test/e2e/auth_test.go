package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/consul-hds/consul-hds/bootstrap"
	"github.com/consul-hds/consul-hds/test/lab"
)

// byToken makes a daemon want the tokens of Envoys.
const byToken = quick + `
hds {
  auth     = "consul"
  node_ids = ["` + theNode + `"]
}
`

// withDefaultToken makes an agent deny what no policy allows, but answer whoever
// shows no token at all by one that may do everything: if the daemon ever asked
// about an empty token, it would hear yes.
func withDefaultToken() lab.ConsulOptions {
	opts := withACLs
	opts.Config = strings.Replace(opts.Config, "agent   ", "default = \""+rootToken+"\"\n    agent   ", 1)
	return opts
}

// tokenFor makes a token that may write services.
func (w *world) tokenFor(services ...string) *api.ACLToken {
	w.t.Helper()
	rules := `node_prefix "" { policy = "read" }`
	for _, s := range services {
		kind := "service"
		if s == "" {
			kind = "service_prefix"
		}
		rules += fmt.Sprintf("\n%s %q { policy = \"write\" }", kind, s)
	}
	name := "for" + strings.Join(services, "-")
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	require.NoError(w.t, err)
	return w.newToken(name)
}

// ownToken is the daemon's configuration of a token of its own.
func (w *world) ownToken() string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "token")
	require.NoError(w.t, os.WriteFile(file, []byte(w.tokenFor("").SecretID), 0o600))
	return fmt.Sprintf("consul {\n  token_file = %q\n}\n", file)
}

// envoyWith starts an Envoy that proves who it is.
func (w *world) envoyWith(id, addr string, auth lab.HDSAuth) *lab.Envoy {
	w.t.Helper()
	e, err := theLab.StartEnvoy(w.ctx, lab.EnvoyOptions{NodeID: id, HDSAddr: addr, HDSAuth: auth})
	require.NoError(w.t, err)
	w.ends(e.Process)
	return e
}

// knock opens a stream as an attacker does, claims to be id, and returns how it
// ends; OK is a stream that got a specifier.
func (w *world) knock(target string, id string, creds credentials.TransportCredentials, tokens ...string) (codes.Code, string) {
	w.t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	require.NoError(w.t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(w.ctx, metadata.MD{"x-consul-token": tokens}), patience)
	defer cancel()
	stream, err := healthv3.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(ctx)
	if err != nil {
		return status.Code(err), err.Error()
	}
	_ = stream.Send(&healthv3.HealthCheckRequestOrEndpointHealthResponse{ // the stream may be refused by now
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &healthv3.HealthCheckRequest{Node: &corev3.Node{Id: id}},
		},
	})
	_, err = stream.Recv()
	return status.Code(err), fmt.Sprint(err)
}

// socket is how gRPC's clients reach the daemon's socket.
func (w *world) socket() string { return "unix:" + strings.TrimPrefix(w.daemon.HDSAddr(), "unix://") }

// refusals is how many streams the daemon has refused for a reason.
func (w *world) refusals(reason string) string {
	w.t.Helper()
	metrics, err := w.daemon.Get(w.ctx, "/metrics")
	require.NoError(w.t, err)
	m := regexp.MustCompile(`consul_hds_streams_refused_total\{reason="` + reason + `"\} (\d+)`).FindSubmatch(metrics)
	require.NotNil(w.t, m)
	return string(m[1])
}

func TestTokensDecideWhoMaySpeakForWhat(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withDefaultToken())
	web, db := w.tokenFor("web"), w.tokenFor("db")
	w.startDaemon(byToken + w.ownToken())
	one, two := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("db-1", two.Port(), map[string]string{"hds": "http"})
	w.register("web-2", w.app().Port(), map[string]string{"hds": "http"})
	proxy := w.registerSidecar("web-2", "", 0)

	w.envoyWith(theNode, w.daemon.HDSAddr(), lab.HDSAuth{Token: web.SecretID})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.told(`the token of Envoy "` + theNode + `" needs service:write on ["db"]`)
	require.NoError(t, w.has("hds:db-1", api.HealthCritical)())
	w.envoyWith(proxy, w.daemon.HDSAddr(), lab.HDSAuth{Token: web.SecretID})
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
	assert.Regexp(t, `^unix, pid \d+ uid \d+ gid \d+$`, w.observer(theNode).Peer)
	assert.Regexp(t, `stream opened: .*peer="unix, pid \d+ uid \d+`, w.daemon.Log())

	const guess = "22222222-2222-2222-2222-222222222222"
	plain := insecure.NewCredentials()
	for name, tokens := range map[string][]string{
		"none": nil, "empty": {""}, "blank": {"  "}, "anonymous": {"anonymous"}, "the root policy": {"manage"},
		"unknown": {guess}, "two": {web.SecretID, web.SecretID}, "an accessor": {web.AccessorID},
	} {
		code, text := w.knock(w.socket(), theNode, plain, tokens...)
		assert.Equal(t, codes.Unauthenticated, code, "%s: %s", name, text)
	}
	code, text := w.knock(w.socket(), proxy, plain, db.SecretID)
	assert.Equal(t, codes.PermissionDenied, code, text)
	assert.Equal(t, "1", w.refusals("permission"))
	assert.Equal(t, "8", w.refusals("token"))
	assert.Equal(t, 1, strings.Count(w.daemon.Log(), "[WARN]  consul-hds.hds: refused Envoys: reason=token"), "one line a minute")
	shown := w.status().Refused
	require.Len(t, shown, 2, "the newest of each reason")
	assert.Equal(t, []any{"permission", 1, "token", 8}, []any{shown[0].Reason, shown[0].Count, shown[1].Reason, shown[1].Count})
	assert.Contains(t, shown[0].Error, `needs service:write on ["web"]`)
	code, text = w.knock(w.socket(), "stranger", plain, db.SecretID)
	assert.Equal(t, codes.OK, code, "it gets an empty specifier: %s", text)

	_, err := w.client.ACL().TokenDelete(web.AccessorID, nil)
	require.NoError(t, err)
	gone := w.eventually(time.Minute, func() error {
		if o := w.status().Observers; len(o) > 0 {
			return fmt.Errorf("observers are %v", o)
		}
		return nil
	})
	assert.Regexp(t, `none of them is connected\n +an Envoy was refused at .* \(permission\), maybe this one: unix, pid \d+`, w.explained("web-2"))
	t.Logf("the streams of a revoked token were gone after %s", gone.Round(time.Millisecond))

	for _, path := range []string{"/metrics", "/v1/status"} {
		text, err := w.daemon.Get(w.ctx, path)
		require.NoError(t, err)
		for _, secret := range []string{web.SecretID, db.SecretID, guess} {
			assert.NotContains(t, string(text), secret)
			assert.NotContains(t, w.daemon.Log(), secret)
		}
	}
}

// Who may write web only can register a proxy of web that names db's instance.
// db's check must not change hands by that.
func TestAForeignProxyTakesNoProbeAway(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withDefaultToken())
	web, db := w.tokenFor("web"), w.tokenFor("db")
	w.startDaemon(byToken + w.ownToken())
	app := w.app()
	w.register("db-1", app.Port(), map[string]string{"hds": "http"})
	w.envoyWith(theNode, w.daemon.HDSAddr(), lab.HDSAuth{Token: db.SecretID})
	w.eventually(patience, w.has("hds:db-1", api.HealthPassing))

	attacker, err := api.NewClient(&api.Config{Address: w.consul.HTTPAddr(), Token: web.SecretID})
	require.NoError(t, err)
	require.NoError(t, attacker.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "a", Name: "web", Kind: api.ServiceKindConnectProxy, Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "web", DestinationServiceID: "db-1", LocalServicePort: 1},
	}))
	w.eventually(patience, func() error {
		for _, p := range w.status().Problems {
			if strings.Contains(p.Message, `proxy "a" is not taken for a sidecar of it`) {
				return nil
			}
		}
		return fmt.Errorf("problems are %v", w.status().Problems)
	})
	app.SetStatus(500)
	w.eventually(patience, w.has("hds:db-1", api.HealthCritical))
	assert.Contains(t, w.check("hds:db-1").Output, "unhealthy"+w.code(500)+", says Envoy "+theNode)
	code, text := w.knock(w.socket(), "a", insecure.NewCredentials(), web.SecretID)
	assert.Equal(t, codes.OK, code, "it gets an empty specifier: %s", text)
}

// Without ACLs nobody can say what a token may do: that is no yes.
func TestTokensCannotBeAskedForWhereACLsAreOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byToken)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	code, text := w.knock(w.socket(), theNode, insecure.NewCredentials(), rootToken)
	assert.Equal(t, codes.Unavailable, code)
	assert.Contains(t, text, "ACLs disabled")
	assert.Equal(t, "1", w.refusals("consul"))
	w.eventually(patience, func() error {
		for _, p := range w.status().Problems {
			if p.Source == "consul" && strings.Contains(p.Message, "the agent has ACLs disabled") {
				return nil
			}
		}
		return fmt.Errorf("problems are %v", w.status().Problems)
	})
	assert.Empty(t, w.status().Observers)
}

// Consul's trouble ends no stream and turns nobody critical; it lets nobody in.
func TestOpenStreamsGoOnWhileTheAgentIsAway(t *testing.T) {
	t.Parallel()
	opts := withDefaultToken()
	opts.Persistent = true
	w := newConsul(t, opts)
	web := w.tokenFor("web")
	w.startDaemon(byToken + w.ownToken())
	w.envoyWith(theNode, w.daemon.HDSAddr(), lab.HDSAuth{Token: web.SecretID})
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))

	require.NoError(t, w.consul.Kill())
	time.Sleep(20 * time.Second) // longer than a verdict stands without a question
	assert.Len(t, w.status().Observers, 1)
	code, text := w.knock(w.socket(), theNode, insecure.NewCredentials(), web.SecretID)
	assert.Equal(t, codes.Unavailable, code)
	assert.Contains(t, text, "the agent cannot be reached")
	require.NoError(t, w.consul.Start())
	require.NoError(t, w.consul.WaitReady(w.ctx))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.NotContains(t, w.daemon.Log(), "stream ended")
	assert.Equal(t, "0", w.refusals("token"))
}

// spiffe makes a certificate of this URI and no other name.
func spiffe(uri string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(uri)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{u}
	}
}

func TestMutualTLSOfEnvoys(t *testing.T) {
	t.Parallel()
	port, err := theLab.Port()
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	ca, dir := newAuthority(t), t.TempDir()
	put := func(from, name string) string {
		t.Helper()
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(to+".new", b, 0o600))
		require.NoError(t, os.Rename(to+".new", to))
		return to
	}
	serverCert, serverKey := ca.issueAs("server", func(c *x509.Certificate) { c.DNSNames = []string{"hds.local"} })
	w := newWorld(t, quick+fmt.Sprintf(`
hds {
  listen   = [%q]
  node_ids = ["`+theNode+`"]
  tls {
    cert_file          = %q
    key_file           = %q
    client_ca_file     = %q
    allowed_identities = ["spiffe://dc1/envoy/*"]
  }
}`, addr, put(serverCert, "cert.pem"), put(serverKey, "key.pem"), put(ca.ca(), "ca.pem")))
	good := func(a *authority) lab.HDSAuth {
		cert, key := a.issueAs("envoy", spiffe("spiffe://dc1/envoy/n1"))
		return lab.HDSAuth{TLS: bootstrap.TLS{CAFile: ca.ca(), ServerName: "hds.local", CertFile: cert, KeyFile: key}}
	}
	first := w.envoyWith(theNode, addr, good(ca))
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.Regexp(t, `^tls:127\.0\.0\.1:\d+, "spiffe://dc1/envoy/n1"$`, w.observer(theNode).Peer)

	showing := func(a *authority, change func(*x509.Certificate)) credentials.TransportCredentials {
		c := &tls.Config{RootCAs: ca.pool(), ServerName: "hds.local"}
		if a != nil {
			pair, err := tls.LoadX509KeyPair(a.issueAs("attacker", change))
			require.NoError(t, err)
			c.Certificates = []tls.Certificate{pair}
		}
		return credentials.NewTLS(c)
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"plain text": insecure.NewCredentials(), "no certificate": showing(nil, nil),
		"another CA":   showing(newAuthority(t), spiffe("spiffe://dc1/envoy/n1")),
		"another name": showing(ca, spiffe("spiffe://dc1/web")),
		"expired": showing(ca, func(c *x509.Certificate) {
			spiffe("spiffe://dc1/envoy/n1")(c)
			c.NotAfter = time.Now().Add(-time.Minute)
		}),
	} {
		code, text := w.knock("dns:///"+addr, theNode, creds)
		assert.Equal(t, codes.Unavailable, code, "%s: %s", name, text)
	}
	assert.NotEqual(t, "0", w.refusals("tls"))
	assert.NotEqual(t, "0", w.refusals("identity"))
	assert.Equal(t, 1, strings.Count(w.daemon.Log(), "[WARN]  consul-hds.hds: refused Envoys: reason=tls"))
	assert.Len(t, w.status().Observers, 1)

	// The client CA changes: who is in stays in, the next one is judged anew.
	next := newAuthority(t)
	put(next.ca(), "ca.pem")
	w.logged("the TLS files of the HDS listeners have changed")
	code, _ := w.knock("dns:///"+addr, theNode, showing(ca, spiffe("spiffe://dc1/envoy/n1")))
	assert.Equal(t, codes.Unavailable, code)
	require.NoError(t, w.has("hds:web-1", api.HealthPassing)())
	require.NoError(t, first.Signal(syscall.SIGTERM))
	w.envoyWith(theNode, addr, good(next))
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))

	// A broken file is a problem, and the good ones go on.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("garbage"), 0o600))
	w.eventually(patience, func() error {
		for _, p := range w.status().Problems {
			if p.Source == "config" && strings.Contains(p.Message, "cert_file: it holds nothing in PEM form") {
				return nil
			}
		}
		return fmt.Errorf("problems are %v", w.status().Problems)
	})
	code, text := w.knock("dns:///"+addr, theNode, showing(next, spiffe("spiffe://dc1/envoy/n1")))
	assert.Equal(t, codes.OK, code, text)
	out, exit, err := w.daemon.Command(w.ctx, "validate", "-hds-listen", addr,
		"-hds-tls-cert-file", filepath.Join(dir, "cert.pem"), "-hds-tls-key-file", filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	assert.Equal(t, 2, exit)
	assert.Contains(t, out, "cert_file: it holds nothing in PEM form")
}

// logged waits for a line of the daemon's log.
func (w *world) logged(text string) {
	w.t.Helper()
	w.eventually(patience, func() error {
		if !strings.Contains(w.daemon.Log(), text) {
			return fmt.Errorf("the log does not say %q", text)
		}
		return nil
	})
}
