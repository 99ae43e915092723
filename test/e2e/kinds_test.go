package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/consul-hds/consul-hds/test/lab"
)

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// configured starts an agent, a daemon with one service block for web, and a
// node Envoy.
func configured(t *testing.T, check string) *world {
	t.Helper()
	w := newConsul(t, lab.ConsulOptions{})
	w.startDaemon(quick + "service \"web\" {\n  check \"c\" {\n" + check + "\n  }\n}\n")
	w.startEnvoy(theNode)
	return w
}

// turns waits for the only check of web-1 to have a status.
func (w *world) turns(status string) {
	w.t.Helper()
	w.eventually(patience, w.has("hds.c:web-1", status))
}

func TestAnHTTPProbeWithEverything(t *testing.T) {
	t.Setenv("HDS_TEST_SECRET", "leaked")
	w := configured(t, `
http {
  path    = "/ready?x=%25"
  method  = "POST"
  host    = "app.example"
  body    = "are you there?"
  receive = ["hex:6f6b", "yes"]
  header = {
    "X-Probe"      = ["hds", "100% %ENVIRONMENT(HDS_TEST_SECRET)%"]
    "Content-Type" = ["text/plain"]
  }
}`)
	var answer atomic.Value
	answer.Store("ok, and yes")
	seen := make(chan *http.Request, 100)
	l := listen(t, "127.0.0.1")
	serveHTTP(t, l, nil, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Set("the-body", string(body))
		select {
		case seen <- r:
		default:
		}
		fmt.Fprint(rw, answer.Load())
	})
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	r := <-seen
	assert.Equal(t, []string{"POST", "/ready?x=%25", "app.example", "HTTP/1.1"}, []string{r.Method, r.RequestURI, r.Host, r.Proto})
	assert.Equal(t, "are you there?", r.Header.Get("the-body"))
	assert.Equal(t, []string{"hds", "100% %ENVIRONMENT(HDS_TEST_SECRET)%"}, r.Header.Values("X-Probe"), "values are no format strings")
	assert.Equal(t, []string{"text/plain"}, r.Header.Values("Content-Type"))
	answer.Store("yes, but not ok") // not in this order
	w.turns(api.HealthCritical)
	answer.Store("ok yes")
	w.turns(api.HealthPassing)
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		conf  *tls.Config
		check string
	}{
		"h2c": {nil, "http {\n http2 = true\n}"},
		"h2":  {ca.server(nil, "app.example"), fmt.Sprintf("http {\n http2 = true\n tls {\n ca_file = %q\n server_name = \"app.example\"\n}\n}", ca.ca())},
	} {
		t.Run(name, func(t *testing.T) {
			w := configured(t, c.check)
			l := listen(t, "127.0.0.1")
			var status atomic.Int64
			status.Store(200)
			var proto atomic.Value
			serveHTTP(t, l, c.conf, func(rw http.ResponseWriter, r *http.Request) {
				proto.Store(r.Proto)
				rw.WriteHeader(int(status.Load()))
			})
			w.register("web-1", portOf(l), nil)
			w.turns(api.HealthPassing)
			assert.Equal(t, "HTTP/2.0", proto.Load())
			status.Store(503)
			w.turns(api.HealthCritical)
		})
	}
}

func TestTLSVerifiesTheServer(t *testing.T) {
	t.Parallel()
	ca, other, clients := newAuthority(t), newAuthority(t), newAuthority(t)
	clientCert, clientKey := clients.issue("client")
	tlsBlock := func(more string) string { return "http {\n tls {\n" + more + "\n}\n}" }
	verify := fmt.Sprintf("ca_file = %q\nserver_name = %%q\n", ca.ca())
	for name, c := range map[string]struct {
		conf   *tls.Config
		check  string
		status string
	}{
		"a name":           {ca.server(nil, "app.example"), tlsBlock(fmt.Sprintf(verify, "app.example")), api.HealthPassing},
		"an address":       {ca.server(nil, "127.0.0.1"), tlsBlock(fmt.Sprintf(verify, "127.0.0.1")), api.HealthPassing},
		"another name":     {ca.server(nil, "app.example"), tlsBlock(fmt.Sprintf(verify, "other.example")), api.HealthCritical},
		"another CA":       {other.server(nil, "app.example"), tlsBlock(fmt.Sprintf(verify, "app.example")), api.HealthCritical},
		"skip_verify":      {other.server(nil, "whatever"), tlsBlock("skip_verify = true"), api.HealthPassing},
		"a client":         {ca.server(clients, "app.example"), tlsBlock(fmt.Sprintf(verify, "app.example") + fmt.Sprintf("cert_file = %q\nkey_file = %q", clientCert, clientKey)), api.HealthPassing},
		"no client":        {ca.server(clients, "app.example"), tlsBlock(fmt.Sprintf(verify, "app.example")), api.HealthCritical},
		"a plain server":   {nil, tlsBlock("skip_verify = true"), api.HealthCritical},
		"TLS 1.3 at least": {func() *tls.Config { s := ca.server(nil, "app.example"); s.MinVersion = tls.VersionTLS13; return s }(), tlsBlock(fmt.Sprintf(verify, "app.example")), api.HealthPassing},
	} {
		t.Run(name, func(t *testing.T) {
			w := configured(t, c.check)
			l := listen(t, "127.0.0.1")
			serveHTTP(t, l, c.conf, func(http.ResponseWriter, *http.Request) {})
			w.register("web-1", portOf(l), nil)
			w.eventually(patience, func() error {
				if c, _ := w.status().Check("hds.c:web-1"); c.Phase != "reported" {
					return fmt.Errorf("it is %q", c.Phase)
				}
				return nil
			})
			w.turns(c.status)
		})
	}
}

// A resumed TLS session shows no certificate: each probe has to see the one that
// the server has now.
func TestACertificateThatIsReplacedIsSeen(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	w := configured(t, fmt.Sprintf("http {\n tls {\n ca_file = %q\n server_name = \"app.example\"\n}\n}", ca.ca()))
	var current atomic.Pointer[tls.Certificate]
	good, bad := ca.server(nil, "app.example").Certificates[0], other.server(nil, "app.example").Certificates[0]
	current.Store(&good)
	l := listen(t, "127.0.0.1")
	conf := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }}
	serveHTTP(t, l, conf, func(http.ResponseWriter, *http.Request) {})
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	current.Store(&bad)
	w.turns(api.HealthCritical)
	current.Store(&good)
	w.turns(api.HealthPassing)
}

func TestTheFilesOfTLSMayChange(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	copyFile := func(from string) {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(caFile+".new", b, 0o600))
		require.NoError(t, os.Rename(caFile+".new", caFile))
	}
	copyFile(ca.ca())
	w := newConsul(t, lab.ConsulOptions{})
	w.startDaemon(strings.Replace(quick, "}", fmt.Sprintf("  ca_file = %q\n}", caFile), 1))
	e := w.startEnvoy(theNode)
	l := listen(t, "127.0.0.1")
	serveHTTP(t, l, ca.server(nil, "app.example"), func(http.ResponseWriter, *http.Request) {})
	w.register("web-1", portOf(l), map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_server_name": "app.example"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	s := w.sample(map[string]string{"hds:web-1": api.HealthPassing})
	told := func(want string) {
		w.eventually(patience, func() error {
			if p := fmt.Sprint(w.problems("web-1")); want == "" && p != "[]" || !strings.Contains(p, want) {
				return fmt.Errorf("problems are %s", p)
			}
			return nil
		})
	}
	// What is wrong with a file never reaches an Envoy, and the last good one goes on.
	require.NoError(t, os.WriteFile(caFile, []byte("garbage"), 0o600))
	told("nothing in PEM form")
	require.NoError(t, os.Remove(caFile))
	told("no such file")
	require.NoError(t, syscall.Mkfifo(caFile, 0o600))
	told("no regular file")
	require.NoError(t, os.Remove(caFile))
	require.NoError(t, os.Mkdir(caFile, 0o700))
	told("no regular file")
	require.NoError(t, os.Remove(caFile))
	copyFile(ca.ca())
	told("")
	s.ends(t)

	copyFile(newAuthority(t).ca()) // changed files are sent again
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	copyFile(ca.ca())
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	n, err := e.Stat(w.ctx, "hds_delegate.errors")
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestTLSIsSwitchedOnAndOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	e := w.startEnvoy(theNode)
	ca := newAuthority(t)
	plain, secure := listen(t, "127.0.0.1"), listen(t, "127.0.0.1")
	serveHTTP(t, plain, nil, func(http.ResponseWriter, *http.Request) {})
	serveHTTP(t, secure, ca.server(nil, "x"), func(http.ResponseWriter, *http.Request) {})
	w.register("web-1", portOf(plain), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	for i := range 10 {
		if i%2 == 0 { // TLS and address change at once: in place, this would be Envoy's death
			w.register("web-1", portOf(secure), map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_skip_verify": "true"})
		} else {
			w.register("web-1", portOf(plain), map[string]string{"hds": "http"})
		}
		time.Sleep(700 * time.Millisecond)
		require.NoError(t, w.has("hds:web-1", api.HealthPassing)())
	}
	stats, err := e.Stats(w.ctx)
	require.NoError(t, err)
	assert.Zero(t, stats["hds_delegate.errors"])
}

func TestTCPSendAndReceive(t *testing.T) {
	t.Parallel()
	w := configured(t, "tcp {\n send = \"PING\\r\\n\"\n receive = [\"+PONG\"]\n}")
	l := listen(t, "127.0.0.1")
	p := servePings(t, l)
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	for what, b := range map[string]*atomic.Bool{"silent": &p.silent, "wrong": &p.wrong, "reset": &p.reset} {
		b.Store(true)
		w.turns(api.HealthCritical)
		t.Logf("%s: %s", what, w.check("hds.c:web-1").Output)
		b.Store(false)
		w.turns(api.HealthPassing)
	}
}

func TestTCPWithTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := configured(t, fmt.Sprintf("tcp {\n send = \"PING\\n\"\n receive = [\"PONG\"]\n tls {\n ca_file = %q\n server_name = \"db.example\"\n}\n}", ca.ca()))
	l := listen(t, "127.0.0.1")
	p := servePings(t, tls.NewListener(l, ca.server(nil, "db.example")))
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	p.wrong.Store(true)
	w.turns(api.HealthCritical)
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		conf    *tls.Config
		check   string
		service string
	}{
		"empty": {nil, "grpc {\n}", ""},
		"named": {nil, "grpc {\n service = \"shop.Cart\"\n}", "shop.Cart"},
		"TLS":   {ca.server(nil, "app.example"), fmt.Sprintf("grpc {\n service = \"x\"\n tls {\n ca_file = %q\n server_name = \"app.example\"\n}\n}", ca.ca()), "x"},
	} {
		t.Run(name, func(t *testing.T) {
			w := configured(t, c.check)
			l := listen(t, "127.0.0.1")
			h := serveGRPC(t, l, c.conf)
			h.SetServingStatus(c.service, healthpb.HealthCheckResponse_SERVING)
			w.register("web-1", portOf(l), nil)
			w.turns(api.HealthPassing)
			h.SetServingStatus(c.service, healthpb.HealthCheckResponse_NOT_SERVING)
			w.turns(api.HealthCritical)
			h.SetServingStatus(c.service, healthpb.HealthCheckResponse_SERVING)
			w.turns(api.HealthPassing)
			if c.service != "" {
				h.SetServingStatus(c.service, healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
				w.turns(api.HealthCritical)
			}
		})
	}
}

func TestGRPCByMeta(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	l := listen(t, "127.0.0.1")
	h := serveGRPC(t, l, nil)
	w.register("web-1", portOf(l), map[string]string{"hds": "grpc", "hds_grpc_service": "nobody.Knows"})
	w.eventually(patience, func() error {
		if c, _ := w.status().Check("hds:web-1"); c.Phase != "reported" {
			return fmt.Errorf("it is %q", c.Phase)
		}
		return nil
	})
	require.NoError(t, w.has("hds:web-1", api.HealthCritical)(), "NOT_FOUND")
	h.SetServingStatus("nobody.Knows", healthpb.HealthCheckResponse_SERVING)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.Equal(t, fmt.Sprintf("grpc nobody.Knows of 127.0.0.1:%d: healthy, says Envoy %s", portOf(l), theNode), w.check("hds:web-1").Output)
}

func TestUnixSocketServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	path, err := theLab.SocketPath("app.sock")
	require.NoError(t, err)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	var host atomic.Value
	serveHTTP(t, l, nil, func(_ http.ResponseWriter, r *http.Request) { host.Store(r.Host) })
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1", Name: "web", SocketPath: path, Meta: map[string]string{"hds": "http"},
	}))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.Equal(t, "localhost", host.Load())
	c, _ := w.status().Check("hds:web-1")
	assert.Equal(t, "unix://"+path, c.Target)
	require.NoError(t, l.Close())
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	four, six := listen(t, "127.0.0.1"), listen(t, "::1")
	serveHTTP(t, four, nil, func(http.ResponseWriter, *http.Request) {})
	serveHTTP(t, six, nil, func(http.ResponseWriter, *http.Request) {})
	add := func(id, address string, port int, meta map[string]string) {
		meta["hds"] = "http"
		require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: id, Name: "web", Address: address, Port: port, Meta: meta}))
	}
	add("six", "0:0:0:0:0:0:0:1", portOf(six), map[string]string{})
	add("named", "localhost", portOf(four), map[string]string{})
	add("node", "", portOf(four), map[string]string{})
	add("meta", "10.255.255.1", 1, map[string]string{"hds_address": "localhost", "hds_port": fmt.Sprint(portOf(four))})
	add("lost", "no-such-host.invalid", portOf(four), map[string]string{})
	targets := map[string]string{
		"six": fmt.Sprintf("[::1]:%d", portOf(six)), "named": fmt.Sprintf("127.0.0.1:%d", portOf(four)),
		"node": fmt.Sprintf("127.0.0.1:%d", portOf(four)), "meta": fmt.Sprintf("127.0.0.1:%d", portOf(four)),
	}
	for id, target := range targets {
		w.eventually(patience, w.has("hds:"+id, api.HealthPassing))
		c, _ := w.status().Check("hds:" + id)
		assert.Equal(t, target, c.Target, id)
	}
	w.eventually(patience, func() error {
		if p := fmt.Sprint(w.problems("lost")); !strings.Contains(p, `"no-such-host.invalid" cannot be probed yet`) {
			return fmt.Errorf("problems are %s", p)
		}
		return nil
	})
	require.NoError(t, w.has("hds:lost", "")())

	// A name that does not resolve takes nothing from what was good before.
	add("named", "no-such-host.invalid", portOf(four), map[string]string{})
	w.eventually(patience, func() error {
		if len(w.problems("named")) == 0 {
			return fmt.Errorf("no problem yet")
		}
		return nil
	})
	w.always(time.Second, w.has("hds:named", api.HealthPassing))
	require.NoError(t, four.Close())
	w.eventually(patience, w.has("hds:named", api.HealthCritical))
}

// Envoy alone fails an endpoint at its first answer of bad content, whatever the
// threshold.
func TestThresholdsAreHonouredForContent(t *testing.T) {
	w := configured(t, "unhealthy_threshold = 4\nhttp {\n receive = [\"good\"]\n}")
	if w.code(200) == "" {
		t.Log("this Envoy's codes cannot be trusted: its first word counts")
		return
	}
	var answer atomic.Value
	answer.Store("good")
	var hits atomic.Int64
	l := listen(t, "127.0.0.1")
	serveHTTP(t, l, nil, func(rw http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(rw, answer.Load())
	})
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	s := w.sample(map[string]string{"hds.c:web-1": api.HealthPassing})
	for range 3 { // one bad answer, and another
		answer.Store("bad")
		n := hits.Load()
		w.eventually(patience, func() error {
			if hits.Load() == n {
				return fmt.Errorf("not asked yet")
			}
			return nil
		})
		answer.Store("good")
		time.Sleep(time.Second)
	}
	s.ends(t)
	n := hits.Load()
	answer.Store("bad")
	start := time.Now()
	w.turns(api.HealthCritical)
	assert.GreaterOrEqual(t, hits.Load()-n, int64(4))
	assert.Less(t, time.Since(start), bound(200*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 4)+slack)
}

func TestThresholdsAreHonouredForGRPC(t *testing.T) {
	w := configured(t, "unhealthy_threshold = 4\ngrpc {\n}")
	if w.code(200) == "" {
		t.Log("this Envoy's codes cannot be trusted: its first word counts")
		return
	}
	l := listen(t, "127.0.0.1")
	h := serveGRPC(t, l, nil)
	w.register("web-1", portOf(l), nil)
	w.turns(api.HealthPassing)
	start := time.Now()
	h.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	w.turns(api.HealthCritical)
	assert.Greater(t, time.Since(start), 4*200*time.Millisecond)
	assert.Less(t, time.Since(start), bound(200*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 4)+slack)
	h.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	w.turns(api.HealthPassing)
}
