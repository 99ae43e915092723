package bridge

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestATokenIsFixedOrAFiles(t *testing.T) {
	fixed, err := newToken("t1", "")
	require.NoError(t, err)
	assert.Equal(t, "t1", fixed.get())
	fixed.watch(t.Context(), nil, nil, nil) // it returns, there is nothing to watch

	file := filepath.Join(t.TempDir(), "token")
	_, err = newToken("", file)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	_, err = newToken("", file)
	require.ErrorContains(t, err, file+" is empty")
	require.NoError(t, os.WriteFile(file, []byte(" t2\n"), 0o600))
	filed, err := newToken("", file)
	require.NoError(t, err)
	assert.Equal(t, "t2", filed.get())
}

func TestATokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) { require.NoError(t, os.WriteFile(file, []byte(s), 0o600)) }
	write("one")
	tok, err := newToken("", file)
	require.NoError(t, err)
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changes := 0
		known := "one"
		go tok.watch(ctx, logTo(&log), func() {
			assert.Equal(t, known, tok.get(), "it is about to change")
			known = ""
		}, func() {
			assert.Empty(t, known, "it was told before")
			known = tok.get()
			changes++
			assert.NotEqual(t, "one", tok.get(), "the new token is there when it is told")
		})
		pass := func() {
			time.Sleep(5*filesEvery + time.Millisecond)
			synctest.Wait()
		}
		pass()
		assert.Zero(t, changes, "the same token is none")
		write("two\n")
		pass()
		assert.Equal(t, "two", tok.get())
		assert.Equal(t, 1, changes, "it is told once")
		write("")
		pass()
		assert.Equal(t, "two", tok.get())
		require.NoError(t, os.Remove(file))
		pass()
		assert.Equal(t, "two", tok.get())
		assert.Equal(t, 1, changes)
		write("two")
		pass()
		assert.Equal(t, 1, changes, "back as it was")
		write("three")
		pass()
		assert.Equal(t, "three", tok.get())
		assert.Equal(t, 2, changes)
		require.NoError(t, os.Remove(file))
		pass()
		cancel()
		synctest.Wait()
	})
	assert.Equal(t, 2, strings.Count(log.String(), "has changed"))
	assert.Equal(t, 3, strings.Count(log.String(), "keeping the Consul token"), "one line for each fault, not for each look:\n%s", log.String())
	for _, secret := range []string{"one", "two", "three"} {
		assert.NotContains(t, strings.ReplaceAll(log.String(), file, ""), " "+secret)
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEveryRequestHasTheNewestToken(t *testing.T) {
	for value, want := range map[string][]string{"mine": {"mine"}, "": nil} {
		tok, err := newToken(value, "")
		require.NoError(t, err)
		var sent http.Header
		w := withToken{token: tok, next: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return nil, http.ErrHandlerTimeout
		})}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Consul-Token", "another's")
		_, err = w.RoundTrip(r) //nolint:bodyclose // there is no response
		require.ErrorIs(t, err, http.ErrHandlerTimeout)
		assert.Equal(t, want, sent.Values("X-Consul-Token"))
		assert.Equal(t, "another's", r.Header.Get("X-Consul-Token"), "a RoundTripper must not change its request")

		bound := tok.bind(t.Context())
		newest := "newest"
		tok.value.Store(&newest)
		for ctx, want := range map[context.Context][]string{bound: want, t.Context(): {newest}} {
			_, err = w.RoundTrip(r.Clone(ctx)) //nolint:bodyclose // there is no response
			require.ErrorIs(t, err, http.ErrHandlerTimeout)
			assert.Equal(t, want, sent.Values("X-Consul-Token"))
		}
	}
}

// noConsulEnv unsets what the machine may say of Consul.
func noConsulEnv(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "CONSUL_") {
			t.Setenv(name, "")
		}
	}
}

// agent answers like one and remembers the tokens it was shown.
type agent struct {
	mu     sync.Mutex
	tokens []string
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = append(a.tokens, r.Header.Get("X-Consul-Token"))
	_, _ = w.Write([]byte(`"10.0.0.1:8300"`))
}

// ask asks through a client that is made anew.
func ask(t *testing.T, c ConsulConfig) error {
	t.Helper()
	tok, err := newToken(c.Token, "")
	require.NoError(t, err)
	client, _, err := newClient(c, tok)
	if err != nil {
		return err
	}
	leader, err := client.Status().Leader()
	if err == nil {
		assert.Equal(t, "10.0.0.1:8300", leader)
	}
	return err
}

// anotherCA is the certificate of somebody who signed nothing here.
func anotherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTheClientReachesTheAgent(t *testing.T) {
	noConsulEnv(t)
	a := &agent{}
	plain, secure := httptest.NewServer(a), httptest.NewTLSServer(a)
	defer plain.Close()
	defer secure.Close()
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	local := httptest.NewUnstartedServer(a)
	local.Listener = l
	local.Start()
	defer local.Close()

	dir := t.TempDir()
	ca, wrong, none := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "wrong.pem"), filepath.Join(dir, "none.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(wrong, anotherCA(t), 0o600))
	bare := strings.TrimPrefix(plain.URL, "http://")

	for name, test := range map[string]struct {
		env    map[string]string
		config ConsulConfig
		fails  string
	}{
		"host and port":              {config: ConsulConfig{Address: bare}},
		"http":                       {config: ConsulConfig{Address: plain.URL}},
		"http beats the environment": {env: map[string]string{"CONSUL_HTTP_SSL": "true"}, config: ConsulConfig{Address: plain.URL}},
		"the environment's scheme":   {env: map[string]string{"CONSUL_HTTP_SSL": "true"}, config: ConsulConfig{Address: bare}, fails: "HTTPS"},
		"the environment's address":  {env: map[string]string{"CONSUL_HTTP_ADDR": bare}},
		"unix":                       {config: ConsulConfig{Address: "unix://" + path}},
		"unix beats the environment": {env: map[string]string{"CONSUL_HTTP_SSL": "true"}, config: ConsulConfig{Address: "unix://" + path}},
		"https with its CA":          {config: ConsulConfig{Address: secure.URL, CAFile: ca}},
		"https with a server name":   {config: ConsulConfig{Address: secure.URL, CAFile: ca, ServerName: "example.com"}},
		"https with a wrong name":    {config: ConsulConfig{Address: secure.URL, CAFile: ca, ServerName: "elsewhere.test"}, fails: "elsewhere.test"},
		"https without its CA":       {config: ConsulConfig{Address: secure.URL}, fails: "unknown authority"},
		"https with a wrong CA":      {config: ConsulConfig{Address: secure.URL, CAFile: wrong}, fails: "unknown authority"},
		"https unverified":           {config: ConsulConfig{Address: secure.URL, SkipVerify: true}},
		"a CA that is not there":     {config: ConsulConfig{Address: secure.URL, CAFile: none}, fails: "reading the TLS files for Consul"},
		"a key without certificate":  {config: ConsulConfig{Address: secure.URL, KeyFile: ca}, fails: "reading the TLS files for Consul"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			err := ask(t, test.config)
			if test.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.fails)
			}
		})
	}
}

func TestTheEnvironmentsTokenIsNotOurs(t *testing.T) {
	noConsulEnv(t)
	t.Setenv("CONSUL_HTTP_TOKEN", "the environment's")
	a := &agent{}
	s := httptest.NewServer(a)
	defer s.Close()
	require.NoError(t, ask(t, ConsulConfig{Address: s.URL}))
	require.NoError(t, ask(t, ConsulConfig{Address: s.URL, Token: "ours"}))
	assert.Equal(t, []string{"", "ours"}, a.tokens)
}

func TestTheClientKeepsToItsConnections(t *testing.T) {
	noConsulEnv(t)
	var open, most, asked atomic.Int32
	all := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-all
		_, _ = w.Write([]byte(`"10.0.0.1:8300"`))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	client := clientOf(t, s)
	var asking sync.WaitGroup
	for range 4 * connections {
		asking.Go(func() {
			_, err := client.Status().Leader()
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return asked.Load() >= connections }, 20*time.Second, time.Millisecond, "as many as it may have")
	close(all)
	asking.Wait()
	assert.EqualValues(t, connections, most.Load())
	assert.EqualValues(t, 4*connections, asked.Load())
}

// clientOf is the daemon's client of an agent, without a token.
func clientOf(t *testing.T, agent *httptest.Server) *api.Client {
	t.Helper()
	tok, err := newToken("", "")
	require.NoError(t, err)
	client, _, err := newClient(ConsulConfig{Address: agent.URL}, tok)
	require.NoError(t, err)
	return client
}

// TestAConnectionAtRestIsNotTrustedAfterAFailure: of connections that swallow all, one
// costs its time, and not each of them.
func TestAConnectionAtRestIsNotTrustedAfterAFailure(t *testing.T) {
	noConsulEnv(t)
	type generation struct{}
	var current atomic.Int32
	all, asked := make(chan struct{}), make(chan struct{}, connections)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch now := current.Load(); {
		case r.Context().Value(generation{}) != now:
			<-r.Context().Done() // swallowed
		case now == 0:
			asked <- struct{}{}
			<-all
		}
		_, _ = w.Write([]byte(`"10.0.0.1:8300"`))
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, generation{}, current.Load())
	}
	s.Start()
	defer s.Close()
	client := clientOf(t, s)
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := client.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
		return err
	}
	var asking sync.WaitGroup
	for range connections {
		asking.Go(func() { assert.NoError(t, ask(time.Minute)) })
	}
	for range connections {
		<-asked
	}
	close(all)
	asking.Wait()
	current.Add(1) // now all of them are at rest, and swallow what comes
	require.ErrorIs(t, ask(100*time.Millisecond), context.DeadlineExceeded)
	require.NoError(t, ask(20*time.Second))
}

func TestTheEnvironmentsTokenFileIsNotReadBesideTheConfigs(t *testing.T) {
	noConsulEnv(t)
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", filepath.Join(t.TempDir(), "missing"))
	for _, value := range []string{"", "the config's"} {
		tok, err := newToken(value, "")
		require.NoError(t, err)
		_, _, err = newClient(ConsulConfig{Address: "127.0.0.1:8500"}, tok)
		require.NoError(t, err)
	}
}
