package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// mostGhosts is how many simulated Envoys there are at once.
const mostGhosts = 4

// ghost is a simulated Envoy, which comes and vanishes.
type ghost struct{ close func() }

// haunt sends a simulated Envoy to the daemon; the oldest vanishes if there are
// too many. It is a stranger that reports what nobody has asked for, a node
// Envoy that is given everything and never reports, or no Envoy at all.
//
// A node Envoy that reports would be believed: it stays silent.
func (c *churn) haunt(ctx context.Context) error {
	c.dropGhosts(mostGhosts - 1)
	c.born++
	var g *ghost
	var err error
	switch c.random.IntN(3) {
	case 0:
		g, err = c.connect(ctx, fmt.Sprint("stranger-", c.born), hdstest.Endpoints(1+c.random.IntN(20)))
	case 1:
		g, err = c.connect(ctx, fmt.Sprint("node-ghost-", c.born), nil)
	default:
		g, err = c.garbage()
	}
	if err == nil {
		c.ghosts = append(c.ghosts, g)
	}
	return err
}

// dropGhosts has all but the newest few vanish.
func (c *churn) dropGhosts(keep int) {
	for len(c.ghosts) > keep {
		c.ghosts[0].close()
		c.ghosts = c.ghosts[1:]
	}
}

// connect opens a stream as an Envoy of that id, waits for its specifier, and
// reports if it has something to report.
func (c *churn) connect(ctx context.Context, id string, endpoints []hdstest.Endpoint) (*ghost, error) {
	conn, err := grpc.NewClient("unix:"+c.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	g := &ghost{func() {
		_ = conn.Close()
		cancel()
	}}
	late := time.AfterFunc(patience, cancel)
	defer late.Stop()
	if err := speak(ctx, conn, id, endpoints); err != nil {
		g.close()
		return nil, fmt.Errorf("simulating Envoy %s: %w", id, err)
	}
	return g, nil
}

func speak(ctx context.Context, conn *grpc.ClientConn, id string, endpoints []hdstest.Endpoint) error {
	stream, err := healthv3.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(ctx)
	if err != nil {
		return err
	}
	hello, err := hdstest.Hello(id)
	if err != nil {
		return err
	}
	if err := send(stream, hello); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil || len(endpoints) == 0 {
		return err
	}
	report, err := hdstest.Report(endpoints)
	if err != nil {
		return err
	}
	return send(stream, report)
}

func send(stream healthv3.HealthDiscoveryService_StreamHealthCheckClient, message []byte) error {
	m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	if err := proto.Unmarshal(message, m); err != nil {
		return err
	}
	return stream.Send(m)
}

// garbage is a connection that speaks no HTTP/2, and stays.
func (c *churn) garbage() (*ghost, error) {
	conn, err := net.Dial("unix", c.socket())
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\n\r\n")
	return &ghost{func() { _ = conn.Close() }}, err
}

func (c *churn) socket() string { return strings.TrimPrefix(c.daemon.HDSAddr(), "unix://") }
