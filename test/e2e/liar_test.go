package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// liar is a stream that does what no real Envoy can be made to do.
type liar struct {
	healthv3.HealthDiscoveryService_StreamHealthCheckClient
	specifiers chan *healthv3.HealthCheckSpecifier
}

func (w *world) lie(id string, minor uint32) *liar {
	w.t.Helper()
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(w.daemon.HDSAddr(), "unix://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	stream, err := healthv3.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(w.ctx)
	require.NoError(w.t, err)
	require.NoError(w.t, stream.Send(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{
			Node: &corev3.Node{Id: id, UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
				Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: minor},
			}}},
		}},
	}))
	l := &liar{stream, make(chan *healthv3.HealthCheckSpecifier, 100)}
	go func() {
		for {
			s, err := stream.Recv()
			if err != nil {
				return
			}
			l.specifiers <- s
		}
	}()
	return l
}

// told waits for a problem of Envoys that says text.
func (w *world) told(text string) {
	w.t.Helper()
	w.eventually(patience, func() error {
		for _, p := range w.status().Problems {
			if p.Source == "envoy" && strings.Contains(p.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("problems are %v", w.status().Problems)
	})
}

func TestASpecifierThatIsNotAppliedIsAProblemAndAMetric(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	l := w.lie(theNode, 40)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	empty := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	go func() {
		for l.Send(empty) == nil { // alive, but it echoes nothing
			time.Sleep(200 * time.Millisecond)
		}
	}()
	start := time.Now()
	w.told(`Envoy "` + theNode + `" does not apply what it was sent`)
	assert.Greater(t, time.Since(start), 4*time.Second, "it had time enough")
	w.eventually(patience, func() error {
		m, err := w.daemon.Get(w.ctx, "/metrics")
		if err != nil || !strings.Contains(string(m), "consul_hds_specifiers_unapplied 1") || !strings.Contains(string(m), "consul_hds_specifiers_overdue_total 1") {
			return fmt.Errorf("the metrics do not say so: %w", err)
		}
		return nil
	})
	assert.False(t, w.observer(theNode).Applied)
	require.NoError(t, w.has("hds:web-1", api.HealthCritical)())
}

func TestAnEnvoyTooOldForGRPCGetsNoSuchProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	l := w.lie(theNode, 35)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "grpc"})
	w.register("web-2", w.app().Port(), map[string]string{"hds": "http"})
	w.told("grpc probes need Envoy 1.36 or newer, and this one is 1.35.0")
	w.eventually(patience, func() error {
		if n := w.observer(theNode).Probes; n != 1 {
			return fmt.Errorf("%d probes", n)
		}
		return nil
	})
	for len(l.specifiers) > 0 {
		for _, c := range (<-l.specifiers).ClusterHealthChecks {
			assert.Regexp(t, "^hds:web-2@", c.ClusterName)
		}
	}
}

func TestStreamsThatLieAffectNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+"hds {\n  node_ids = [\"node-*\"]\n}\n")
	w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	s := w.sample(map[string]string{"hds:web-1": api.HealthPassing})
	w.lie("", 40)                    // no node id
	w.lie("web-1-sidecar-proxy", 40) // a sidecar that is not registered
	stranger := w.lie("stranger", 40)
	cluster := w.status().Checks[0].CheckID
	lie := &healthv3.EndpointHealthResponse{ClusterEndpointsHealth: []*healthv3.ClusterEndpointsHealth{{
		ClusterName: cluster, LocalityEndpointsHealth: []*healthv3.LocalityEndpointsHealth{{EndpointsHealth: []*healthv3.EndpointHealth{
			{HealthStatus: corev3.HealthStatus_UNHEALTHY}, {HealthStatus: 77},
		}}},
	}}}
	for range 50 {
		require.NoError(t, stranger.Send(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
			RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: lie},
		}))
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second)
	s.ends(t)
}
