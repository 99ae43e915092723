package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/consul-hds/consul-hds/test/lab"
)

// consulBootstrap registers an instance with a sidecar, and returns the
// bootstrap that Consul makes for it.
func (w *world) consulBootstrap(id string, port int) []byte {
	w.t.Helper()
	name, _, _ := strings.Cut(id, "-")
	public, err := theLab.Port()
	require.NoError(w.t, err)
	require.NoError(w.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: name, Address: "127.0.0.1", Port: port, Meta: map[string]string{"hds": "http"},
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Port: public}},
	}))
	bootstrap, err := w.consul.SidecarBootstrap(w.ctx, id)
	require.NoError(w.t, err)
	return bootstrap
}

// complete runs the command on a bootstrap.
func (w *world) complete(bootstrap []byte, args ...string) []byte {
	w.t.Helper()
	out, err := theLab.Filter(w.ctx, bootstrap, append([]string{"bootstrap"}, args...)...)
	require.NoError(w.t, err)
	return out
}

// TestSidecarsObserveByTheBootstrapCommand starts real sidecars in every way
// that the command offers: they probe their instances, and keep their xDS.
func TestSidecarsObserveByTheBootstrapCommand(t *testing.T) {
	t.Parallel()
	port, err := theLab.Port()
	require.NoError(t, err)
	socket, err := theLab.SocketPath("bootstrap.sock")
	require.NoError(t, err)
	listen, tcp := "unix://"+socket, fmt.Sprint("localhost:", port)
	config := fmt.Sprintf("hds {\n  listen   = [%q, %q]\n  node_ids = [%q]\n}\n", listen, tcp, theNode)
	file := filepath.Join(t.TempDir(), "agent.hcl")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	w := newWorld(t, quick+config)

	for id, options := range map[string]func(bootstrap []byte) lab.EnvoyOptions{
		"web-1": func(b []byte) lab.EnvoyOptions {
			return lab.EnvoyOptions{Bootstrap: w.complete(b, "-config-file", file)}
		},
		"web-2": func(b []byte) lab.EnvoyOptions {
			return lab.EnvoyOptions{Bootstrap: w.complete(b, "-hds-addr", tcp)}
		},
		"web-3": func(b []byte) lab.EnvoyOptions {
			return lab.EnvoyOptions{Bootstrap: b, Overlay: w.complete(nil, "-overlay", "-config-file", file)}
		},
	} {
		e, err := theLab.StartEnvoy(w.ctx, options(w.consulBootstrap(id, w.app().Port())))
		require.NoError(t, err)
		w.ends(e.Process)
		w.eventually(patience, w.has("hds:"+id, api.HealthPassing))
		check, _ := w.status().Check("hds:" + id)
		assert.Equal(t, []string{id + "-sidecar-proxy"}, check.Observers)
		assert.Equal(t, "sidecar", w.observer(id+"-sidecar-proxy").Kind)
		w.eventually(patience, func() error {
			if n, err := e.Stat(w.ctx, "listener_manager.lds.update_success"); n == 0 {
				return fmt.Errorf("Consul has given it no listener, %w", err)
			}
			return nil
		})
	}
	assert.True(t, strings.HasPrefix(w.observer("web-1-sidecar-proxy").Peer, "unix, pid "))
	assert.True(t, strings.HasPrefix(w.observer("web-2-sidecar-proxy").Peer, "tcp:"))
}

// TestEveryClaimedEnvoyAcceptsTheBootstrap has all Envoys that the README names
// judge what the command makes of Consul's bootstrap, which holds a token.
func TestEveryClaimedEnvoyAcceptsTheBootstrap(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	bootstrap := w.consulBootstrap("web-1", 1)
	require.Equal(t, 1, strings.Count(string(bootstrap), rootToken))
	ca := newAuthority(t)
	cert, key := ca.issue("envoy")
	plain := w.complete(bootstrap)
	assert.Equal(t, 1, strings.Count(string(plain), rootToken))
	assert.Equal(t, string(plain), string(w.complete(plain)), "twice is once")
	variants := map[string][]byte{
		"socket": plain,
		"token":  w.complete(bootstrap, "-reuse-token"),
		"TCP":    w.complete(bootstrap, "-hds-addr", "[::1]:8510"),
		"name":   w.complete(bootstrap, "-hds-addr", "hds.invalid:8510"),
		"TLS":    w.complete(bootstrap, "-hds-addr", "10.0.0.1:8510", "-ca-file", ca.ca(), "-tls-server-name", "hds.internal"),
		"mTLS":   w.complete(bootstrap, "-hds-addr", "10.0.0.1:8510", "-ca-file", ca.ca(), "-cert-file", cert, "-key-file", key),
		"plain":  w.complete([]byte("admin: {}"), "-node-id", "node-envoy"),
	}
	assert.Equal(t, 2, strings.Count(string(variants["token"]), rootToken))
	for _, version := range lab.ClaimedEnvoys() {
		for name, completed := range variants {
			assert.NoError(t, theLab.ValidateBootstrap(w.ctx, version, completed), name)
		}
	}
}

// hdsStreams is a server that tells of the streams of Envoys and holds them
// open: it stands in for a daemon with TLS.
type hdsStreams struct {
	healthv3.UnimplementedHealthDiscoveryServiceServer
	opened chan metadata.MD
}

// StreamHealthCheck implements the service.
func (s hdsStreams) StreamHealthCheck(stream healthv3.HealthDiscoveryService_StreamHealthCheckServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.opened <- md
	<-stream.Context().Done()
	return nil
}

// serveHDS serves until the test ends, and returns its address.
func serveHDS(t *testing.T, config *tls.Config) (addr string, opened <-chan metadata.MD) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	streams := hdsStreams{opened: make(chan metadata.MD, 100)}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	healthv3.RegisterHealthDiscoveryServiceServer(server, streams)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), streams.opened
}

// TestTheStreamIsSecureAndCarriesTheToken has a real Envoy open its stream by
// mutual TLS, and refuse a server that has another name or another CA.
func TestTheStreamIsSecureAndCarriesTheToken(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &world{t: t, ctx: ctx}
	ca, strangers := newAuthority(t), newAuthority(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a-token\n"), 0o600))
	cert, key := ca.issue("envoy")
	addr, opened := serveHDS(t, ca.server(ca, "127.0.0.1", "hds.internal"))
	start := func(args ...string) *lab.Envoy {
		args = append(args, "-node-id", theNode, "-hds-addr", addr, "-cert-file", cert, "-key-file", key, "-token-file", token)
		e, err := theLab.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: theNode, Bootstrap: w.complete([]byte("{}"), args...)})
		require.NoError(t, err)
		w.ends(e.Process)
		return e
	}
	for _, wrong := range []*lab.Envoy{start("-ca-file", strangers.ca()), start("-ca-file", ca.ca(), "-tls-server-name", "other")} {
		w.eventually(patience, func() error {
			if n, err := wrong.Stat(ctx, "hds_delegate.errors"); n < 2 {
				return fmt.Errorf("%d tries, %w", n, err)
			}
			return nil
		})
	}
	require.Empty(t, opened)

	start("-ca-file", ca.ca())
	w.eventually(patience, func() error {
		if len(opened) == 0 {
			return fmt.Errorf("no stream")
		}
		return nil
	})
	assert.Equal(t, []string{"a-token"}, (<-opened).Get("x-consul-token"))
}
