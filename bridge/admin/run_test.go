package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start runs a server on free ports until the test ends.
func start(t *testing.T, b *fakeBackend) *Server {
	t.Helper()
	s, err := New(Config{
		Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", Backend: b, Metrics: http.HandlerFunc(fakeMetrics),
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(), "not started")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		assert.Empty(t, s.Addr())
	})
	require.Eventually(t, func() bool { return s.Ready() == nil }, 10*time.Second, time.Millisecond)
	return s
}

func TestRunAndClient(t *testing.T) {
	b := &fakeBackend{status: Status{Node: "n1", Problems: []Problem{{Message: "m"}}}}
	s := start(t, b)
	status, err := Client{Addr: s.Addr()}.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "n1", status.Node)
	assert.Equal(t, Schema, status.Schema)
	assert.Equal(t, b.status.Problems, status.Problems)
	_, err = Client{Addr: s.MetricsAddr()}.Status(t.Context())
	require.ErrorContains(t, err, "no such path")
	_, err = Client{Addr: "127.0.0.1:1"}.Status(t.Context())
	require.ErrorContains(t, err, "127.0.0.1:1")
	_, err = Client{Addr: "\x00"}.Status(t.Context())
	require.Error(t, err)
}

func TestClientWithStrangers(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"schema":"x"}`, "null and more"} {
		for _, code := range []int{200, 302, 500} {
			stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = w.Write([]byte(body))
			}))
			_, err := Client{Addr: stranger.Listener.Addr().String()}.Status(t.Context())
			if code != 200 || body != "null and more" {
				require.Error(t, err, "%d %q", code, body)
			}
			stranger.Close()
		}
	}
}

func TestMalformedRequests(t *testing.T) {
	s := start(t, &fakeBackend{})
	for _, text := range []string{
		"GET\r\n\r\n", "\x00\x01\x02\r\n\r\n", "GET /v1/health HTTP/9.9\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v1/health HTTP/1.1\r\n\r\n", "GET /v1/health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"PUT /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		_, err = conn.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		answer := make([]byte, 64)
		n, err := conn.Read(answer)
		require.NoError(t, err, "%.40q", text)
		assert.Regexp(t, `^HTTP/1\.[01] (4|5)\d\d `, string(answer[:n]), "%.40q", text)
		require.NoError(t, conn.Close())
	}
	_, err := Client{Addr: s.Addr()}.Status(t.Context())
	require.NoError(t, err)
}

// A request that does not end keeps nobody from shutting down.
func TestShutdownIsBounded(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(ended)
	})
	s, err := New(Config{Listen: "127.0.0.1:0", Backend: &fakeBackend{}, Metrics: slow})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Addr() != "" }, 10*time.Second, time.Millisecond)
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)
	<-entered
	began := time.Now()
	cancel()
	require.NoError(t, <-done)
	assert.Less(t, time.Since(began), 5*time.Second)
	<-ended
}

func TestAddressInUseIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	s, err := New(Config{
		Listen: "127.0.0.1:0", MetricsListen: taken.Addr().String(), Backend: &fakeBackend{}, Metrics: http.NotFoundHandler(),
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(t.Context()), "metrics listener")
}

// An address that does not exist yet is waited for, and ready says so.
func TestAbsentAddressIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener("admin", "192.0.2.1:8511", http.NotFoundHandler(), hclog.NewNullLogger())
		var tries atomic.Int32
		var exists atomic.Bool
		l.listen = func(context.Context, string, string) (net.Listener, error) {
			tries.Add(1)
			if exists.Load() {
				return &net.TCPListener{}, nil
			}
			return nil, &net.OpError{Op: "listen", Err: syscall.EADDRNOTAVAIL}
		}
		opened := make(chan error, 1)
		go func() {
			_, err := l.await(t.Context())
			opened <- err
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, l.ready(), syscall.EADDRNOTAVAIL)
		assert.Less(t, tries.Load(), int32(15), "hot loop")
		exists.Store(true)
		require.NoError(t, <-opened)
	})
}

func TestWaitingForAnAddressEnds(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Backend: &fakeBackend{}, Metrics: http.NotFoundHandler()})
	require.NoError(t, err)
	s.listeners[0].listen = func(context.Context, string, string) (net.Listener, error) {
		return nil, syscall.EADDRNOTAVAIL
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, s.Run(ctx))
}
