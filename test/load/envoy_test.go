package main

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
	"github.com/consul-hds/consul-hds/test/lab"
)

// recorder is an HDS server that asks for what it is told, and keeps what the
// Envoy says.
type recorder struct {
	healthv3.UnimplementedHealthDiscoveryServiceServer
	spec     *healthv3.HealthCheckSpecifier
	messages chan *healthv3.HealthCheckRequestOrEndpointHealthResponse
}

func (r *recorder) StreamHealthCheck(g healthv3.HealthDiscoveryService_StreamHealthCheckServer) error {
	if err := g.Send(r.spec); err != nil {
		return err
	}
	for {
		m, err := g.Recv()
		if err != nil {
			return err
		}
		r.messages <- m
	}
}

// asking is a cluster with one endpoint, whose app answers.
func asking(name string, port int) *healthv3.ClusterHealthCheck {
	second := durationpb.New(time.Second)
	return &healthv3.ClusterHealthCheck{
		ClusterName: name,
		HealthChecks: []*corev3.HealthCheck{{
			Timeout: second, Interval: second, NoTrafficInterval: second, NoTrafficHealthyInterval: second,
			HealthyThreshold: wrapperspb.UInt32(1), UnhealthyThreshold: wrapperspb.UInt32(1),
			HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
				Host: "app", Path: "/", CodecClientType: typev3.CodecClientType_HTTP1,
			}},
		}},
		LocalityEndpoints: []*healthv3.LocalityEndpoints{{Locality: &corev3.Locality{}, Endpoints: []*endpointv3.Endpoint{{Address: hdstest.Address("127.0.0.1", port)}}}},
	}
}

// TestTheSimulatedEnvoySpeaksAsARealOne compares the reports of the two, byte by
// byte but for the order of clusters, and what their first messages weigh.
func TestTheSimulatedEnvoySpeaksAsARealOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	l, err := lab.New(ctx, lab.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	r := &recorder{spec: &healthv3.HealthCheckSpecifier{Interval: durationpb.New(100 * time.Millisecond)}, messages: make(chan *healthv3.HealthCheckRequestOrEndpointHealthResponse, 1000)}
	for _, name := range []string{"hds:web-1@01234567", "hds:web-2@89abcdef"} {
		app, err := l.StartApp()
		require.NoError(t, err)
		defer app.Close()
		r.spec.ClusterHealthChecks = append(r.spec.ClusterHealthChecks, asking(name, app.Port()))
	}
	path, err := l.SocketPath("hds.sock")
	require.NoError(t, err)
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer()
	healthv3.RegisterHealthDiscoveryServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	_, err = l.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: "real", HDSAddr: "unix://" + path})
	require.NoError(t, err)

	hello, err := hdstest.Hello("real")
	require.NoError(t, err)
	assert.InEpsilon(t, len(hello), proto.Size(<-r.messages), 0.25)
	simulated, err := hdstest.Report(hdstest.Asked(r.spec))
	require.NoError(t, err)
	for late := time.After(20 * time.Second); ; {
		select {
		case m := <-r.messages:
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			require.NoError(t, err)
			if bytes.Equal(b, simulated) {
				return
			}
		case <-late:
			require.Fail(t, "no report of the real Envoy is that of the simulated one")
		}
	}
}
