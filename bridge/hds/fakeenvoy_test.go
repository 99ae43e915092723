package hds

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen; it says nothing of
// how fast it should.
const patience = 20 * time.Second

// counts is a Metrics that remembers.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name] += n
}

func (c *counts) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (c *counts) StreamRefused(reason string) { c.add("refused "+reason, 1) }
func (c *counts) StreamOpened()               { c.add("opened", 1) }
func (c *counts) StreamEnded()                { c.add("ended", 1) }
func (c *counts) ReportChanged()              { c.add("changed", 1) }
func (c *counts) ReportUnchanged()            { c.add("unchanged", 1) }
func (c *counts) ReportInvalid()              { c.add("invalid", 1) }
func (c *counts) SpecifierSent()              { c.add("sent", 1) }
func (c *counts) GuardDropped(n int)          { c.add("dropped", n) }

// reports is how many reports the server has taken in.
func (c *counts) reports() int { return c.get("changed") + c.get("unchanged") }

// bed is a running server with what a test needs to watch it.
type bed struct {
	*Server
	t      *testing.T
	counts *counts
	// target and options say how a client reaches the server.
	target  string
	options []grpc.DialOption
	// metadata comes along with every stream.
	metadata metadata.MD
	// pipe is how raw bytes reach a server in memory.
	pipe func(context.Context) (net.Conn, error)
	// shutDown ends the server and returns what Run did. It may be called twice.
	shutDown func() error
}

// newBed makes a server and does not run it.
func newBed(t *testing.T, config Config) *bed {
	t.Helper()
	b := &bed{t: t, counts: &counts{}}
	config.Metrics = b.counts
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = 64
	}
	if config.SocketMode == 0 {
		config.SocketMode = 0o660
	}
	config.SocketGID = -1
	var err error
	b.Server, err = New(config)
	require.NoError(t, err)
	return b
}

// run runs the server until the test ends, at the latest.
func (b *bed) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.shutDown = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	b.t.Cleanup(func() { assert.NoError(b.t, b.shutDown()) })
}

// serve runs a server on a unix socket until the test ends.
func serve(t *testing.T) *bed { return serveWith(t, Config{}) }

func serveWith(t *testing.T, config Config) *bed {
	t.Helper()
	config.Listen = []string{"unix://" + filepath.Join(shortDir(t), "hds.sock")}
	b := newBed(t, config)
	b.target = config.Listen[0]
	b.run()
	b.await("to listen", func() bool { return b.Ready() == nil })
	return b
}

// serveInMemory runs a server on pipes, for the bubble of a synctest: there all
// time is the bubble's. The real address is one that the machine does not have,
// so that the server goes on to try it and nothing else.
func serveInMemory(t *testing.T) *bed { return serveInMemoryWith(t, Config{}) }

func serveInMemoryWith(t *testing.T, config Config) *bed {
	t.Helper()
	pipes := bufconn.Listen(1 << 16)
	var serving sync.WaitGroup
	config.Listen = []string{"192.0.2.1:1"}
	config.Register = func(g *grpc.Server) { serving.Go(func() { _ = g.Serve(pipes) }) }
	b := newBed(t, config)
	b.pipe = pipes.DialContext
	b.target = "passthrough:///pipe"
	b.options = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipes.DialContext(ctx) })}
	t.Cleanup(func() {
		serving.Wait()
		_ = pipes.Close()
	})
	b.run()
	return b
}

// await waits until ok.
func (b *bed) await(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, patience, time.Millisecond, "waiting for the server %s", what)
}

// awaitReports waits until the server has taken n reports in, of all streams.
func (b *bed) awaitReports(n int) {
	b.t.Helper()
	b.await("to take reports in", func() bool { return b.counts.reports() >= n })
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hds")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// fakeEnvoy is the client's end of one stream on a connection of its own.
type fakeEnvoy struct {
	t      *testing.T
	stream grpc.ClientStream
	// specs are the specifiers that came, ended is how the stream ended. Both are
	// silent unless listen was called.
	specs chan *healthv3.HealthCheckSpecifier
	ended chan error
	// leave ends the stream from the client's side.
	leave context.CancelFunc
}

// dial opens a stream and says nothing on it.
func (b *bed) dial(calls ...grpc.CallOption) *fakeEnvoy {
	b.t.Helper()
	conn, err := grpc.NewClient(b.target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// without growing windows, so that who does not read soon blocks the sender
		grpc.WithStaticStreamWindowSize(1 << 16), grpc.WithStaticConnWindowSize(1 << 16),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(maxMessage)),
	}, b.options...)...)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), b.metadata))
	e := &fakeEnvoy{t: b.t, specs: make(chan *healthv3.HealthCheckSpecifier, 1000), ended: make(chan error, 1), leave: cancel}
	e.stream, err = conn.NewStream(ctx, &healthv3.HealthDiscoveryService_ServiceDesc.Streams[0],
		healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName, calls...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		cancel()
		assert.NoError(b.t, conn.Close())
	})
	return e
}

// connect opens a stream, says who it is, and listens.
func (b *bed) connect(id string) *fakeEnvoy {
	b.t.Helper()
	e := b.dial().listen()
	if err := e.stream.SendMsg(requestOf(id)); !errors.Is(err, io.EOF) { // else it was refused already
		require.NoError(b.t, err)
	}
	return e
}

func requestOf(id string) *healthv3.HealthCheckRequestOrEndpointHealthResponse {
	return &healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
			HealthCheckRequest: &healthv3.HealthCheckRequest{Node: newNode(id)},
		},
	}
}

// listen begins to read.
func (e *fakeEnvoy) listen() *fakeEnvoy {
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			m := &healthv3.HealthCheckSpecifier{}
			if err := e.stream.RecvMsg(m); err != nil {
				e.ended <- err
				return
			}
			e.specs <- m
		}
	})
	e.t.Cleanup(func() {
		e.leave()
		reading.Wait()
	})
	return e
}

func (e *fakeEnvoy) send(m any) {
	e.t.Helper()
	require.NoError(e.t, e.stream.SendMsg(m))
}

// say reports.
func (e *fakeEnvoy) say(echoes ...echo) {
	e.t.Helper()
	e.send(reportOf(echoes...))
}

// spec is the next specifier.
func (e *fakeEnvoy) spec() *healthv3.HealthCheckSpecifier {
	e.t.Helper()
	select {
	case s := <-e.specs:
		return s
	case err := <-e.ended:
		require.FailNow(e.t, "the stream has ended", "%v", err)
	case <-time.After(patience):
		require.FailNow(e.t, "no specifier came")
	}
	return nil
}

// end is the code that the stream ends with.
func (e *fakeEnvoy) end() (codes.Code, string) {
	e.t.Helper()
	select {
	case err := <-e.ended:
		s, ok := status.FromError(err)
		require.True(e.t, ok || errors.Is(err, context.Canceled), "%v", err)
		return s.Code(), s.Message()
	case <-time.After(patience):
		require.FailNow(e.t, "the stream goes on")
	}
	return 0, ""
}

// rawCodec sends bytes as they are, also those that are no message.
type rawCodec struct{ codec }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if s, ok := v.(string); ok {
		return mem.BufferSlice{mem.SliceBuffer(s)}, nil
	}
	return c.codec.Marshal(v)
}

// dialRaw opens a stream on which strings can be sent as they are.
func (b *bed) dialRaw() *fakeEnvoy {
	b.t.Helper()
	return b.dial(grpc.ForceCodecV2(rawCodec{newCodec()})).listen()
}

// webs is n services with HTTP probes.
func webs(n int) map[string]map[string]string {
	out := make(map[string]map[string]string, n)
	for i := range n {
		out[strings.Repeat("w", 3)+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = asHTTP
	}
	return out
}
