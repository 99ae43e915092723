package e2e

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// listen listens on a free loopback port of the lab's.
func listen(t *testing.T, host string) net.Listener {
	t.Helper()
	port, err := theLab.Port()
	require.NoError(t, err)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(host), Port: port})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// serveHTTP serves a handler: in plain text or with TLS, HTTP/1.1 and HTTP/2
// alike, as the probe wants it.
func serveHTTP(t *testing.T, l net.Listener, conf *tls.Config, h http.HandlerFunc) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, TLSConfig: conf, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second, ErrorLog: quietLog()}
	go func() {
		if conf != nil {
			_ = s.ServeTLS(l, "", "")
		} else {
			_ = s.Serve(l)
		}
	}()
	t.Cleanup(func() { _ = s.Close() })
}

// serveGRPC serves the standard health service.
func serveGRPC(t *testing.T, l net.Listener, conf *tls.Config) *health.Server {
	t.Helper()
	var opts []grpc.ServerOption
	if conf != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(conf)))
	}
	g, h := grpc.NewServer(opts...), health.NewServer()
	healthpb.RegisterHealthServer(g, h)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return h
}

// pinger answers PING with PONG, as long as it is told to.
type pinger struct {
	silent atomic.Bool
	wrong  atomic.Bool
	reset  atomic.Bool
}

func servePings(t *testing.T, l net.Listener) *pinger {
	t.Helper()
	p := &pinger{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.answer(c)
		}
	}()
	return p
}

func (p *pinger) answer(c net.Conn) {
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok && p.reset.Load() {
		_ = tcp.SetLinger(0) // closing resets
		return
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || p.silent.Load() || strings.TrimSpace(line) != "PING" {
		return
	}
	answer := "+PONG\r\n"
	if p.wrong.Load() {
		answer = "-ERR\r\n"
	}
	_, _ = c.Write([]byte(answer))
	time.Sleep(100 * time.Millisecond)
}
