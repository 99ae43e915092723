package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// TestStreamsOfLiars are streams that speak HDS, and lie.
func TestStreamsOfLiars(t *testing.T) {
	t.Parallel()
	w := newWorld(t, liarConfig+bigService())
	v := newVictim(w)
	w.register("side-1", w.app().Port(), map[string]string{"hds": "http"})
	w.registerSidecar("side-1", "", 1)
	v.begin()
	v.endure([]mischief{
		{"no node id", (*victim).nameless},
		{"a report before the request", (*victim).reportFirst},
		{"a second request", (*victim).twoRequests},
		{"not a word", (*victim).silent},
		{"what is no message", (*victim).noMessages},
		{"the id of a sidecar that is not its own", (*victim).foreignSidecar},
		{"the id of the good Envoy, and empty messages", (*victim).foreignNode},
		{"clusters that nobody asked for", (*victim).unknownClusters},
		{"numbers that are no status", (*victim).wrongEnums},
		{"shapes that no Envoy sends", (*victim).wrongShapes},
		{"50,000 endpoints", (*victim).manyEndpoints},
		{"more than a message may hold", (*victim).tooMuch},
		{"never reads", (*victim).neverReads},
		{"1,000 streams", (*victim).manyStreams},
		{"more connections than are served", (*victim).manyConnections},
		{"a storm of reconnects", (*victim).storm},
	})
}

// bigService has a probe whose specifier is longer than what HTTP/2 takes unread.
func bigService() string {
	const check = "service \"big\" {\n  check \"default\" {\n    http {\n      method = \"POST\"\n      body   = %q\n    }\n  }\n}\n"
	return fmt.Sprintf(check, strings.Repeat("x", 60_000))
}

// verbatim sends bytes as they are, and everything else as proto.
type verbatim struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c verbatim) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// dial connects a liar to the daemon's socket.
func (v *victim) dial() *grpc.ClientConn {
	v.t.Helper()
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(v.daemon.HDSAddr(), "unix://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(verbatim{encoding.GetCodecV2(proto.Name)}), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	require.NoError(v.t, err)
	v.leaves = append(v.leaves, func() { _ = conn.Close() })
	return conn
}

// tongue is an open stream of a liar.
type tongue struct {
	v      *victim
	stream grpc.ClientStream
	end    context.CancelFunc
}

// open opens a stream and says nothing. Who waits for its end waits no longer than
// this, should the daemon never end it.
func (v *victim) open(conn *grpc.ClientConn) (*tongue, error) {
	ctx, cancel := context.WithTimeout(v.ctx, 3*settling)
	s, err := conn.NewStream(ctx, &healthv3.HealthDiscoveryService_ServiceDesc.Streams[0], healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName)
	return &tongue{v, s, cancel}, err
}

// known opens a stream that says who it is.
func (v *victim) known(id string) *tongue {
	v.t.Helper()
	o, err := v.open(v.dial())
	require.NoError(v.t, err)
	hello, err := hdstest.Hello(id)
	require.NoError(v.t, err)
	o.say(hello)
	return o
}

// say sends bytes. That the daemon has ended the stream shows in its last word.
func (o *tongue) say(messages ...[]byte) {
	for _, b := range messages {
		if o.stream.SendMsg(b) != nil {
			return
		}
	}
}

// reports sends what the endpoints are, again and again for a while, and fails
// the test if the stream is ended for it.
func (o *tongue) reports(during time.Duration, endpoints func(turn int) []hdstest.Endpoint) (count int) {
	o.v.t.Helper()
	for start := time.Now(); time.Since(start) < during; count++ {
		b, err := hdstest.Report(endpoints(count))
		require.NoError(o.v.t, err)
		require.NoError(o.v.t, o.stream.SendMsg(b))
		time.Sleep(50 * time.Millisecond) // its pace
	}
	return count
}

// lastWord reads until the daemon ends the stream, and returns its code.
func (o *tongue) lastWord() codes.Code {
	for {
		if err := o.stream.RecvMsg(&healthv3.HealthCheckSpecifier{}); err != nil {
			return status.Code(err)
		}
	}
}

// ended fails the test if the daemon does not end the stream so.
func (o *tongue) ended(want codes.Code) string {
	o.v.t.Helper()
	got := o.lastWord()
	assert.Equal(o.v.t, want, got)
	return "ended: " + got.String()
}

// specifier reads the next one.
func (o *tongue) specifier() *healthv3.HealthCheckSpecifier {
	o.v.t.Helper()
	s := &healthv3.HealthCheckSpecifier{}
	require.NoError(o.v.t, o.stream.RecvMsg(s))
	return s
}

// clusters are the names of those that the good Envoy was sent, by check.
func (v *victim) clusters() map[string]string {
	v.t.Helper()
	body, err := v.daemon.Get(v.ctx, "/v1/observers/"+theNode)
	require.NoError(v.t, err)
	var said struct {
		Specifier struct {
			ClusterHealthChecks []struct{ ClusterName string }
		}
	}
	require.NoError(v.t, json.Unmarshal(body, &said))
	out := map[string]string{}
	for _, c := range said.Specifier.ClusterHealthChecks {
		check, _, _ := strings.Cut(c.ClusterName, "@")
		out[check] = c.ClusterName
	}
	require.Contains(v.t, out, goodCheck)
	return out
}

// failing are the good Envoy's clusters, each of them down.
func (v *victim) failing() (out []hdstest.Endpoint) {
	v.t.Helper()
	for _, name := range v.clusters() {
		out = append(out, hdstest.Endpoint{Cluster: name, Address: hdstest.Address("127.0.0.1", 1), Status: corev3.HealthStatus_UNHEALTHY, Code: 503})
	}
	return out
}

func always(e []hdstest.Endpoint) func(int) []hdstest.Endpoint {
	return func(int) []hdstest.Endpoint { return e }
}

func (v *victim) nameless() string { return v.known("").ended(codes.InvalidArgument) }

func (v *victim) reportFirst() string {
	o, err := v.open(v.dial())
	require.NoError(v.t, err)
	b, err := hdstest.Report(v.failing())
	require.NoError(v.t, err)
	o.say(b)
	return o.ended(codes.InvalidArgument)
}

func (v *victim) twoRequests() string {
	o := v.known("liar-1")
	hello, err := hdstest.Hello(theNode)
	require.NoError(v.t, err)
	o.say(hello)
	return o.ended(codes.InvalidArgument)
}

func (v *victim) silent() string {
	o, err := v.open(v.dial())
	require.NoError(v.t, err)
	return o.ended(codes.InvalidArgument)
}

func (v *victim) noMessages() string {
	seen := ""
	for _, garbage := range [][]byte{{0xff}, {0x12, 0x05, 0x00}, {0x12, 0x02, 0x12, 0x05}, []byte(strings.Repeat("\x0b", 10_000)), []byte(strings.Repeat("\x12\xff\xff\xff\x7f", 10_000))} {
		o := v.known("liar-1")
		o.say(garbage)
		seen = o.ended(codes.InvalidArgument)
	}
	return seen
}

func (v *victim) foreignSidecar() string {
	o := v.known("side-1-sidecar-proxy")
	n := o.reports(3*time.Second, always(v.failing()))
	return fmt.Sprintf("%d reports, none heard", n)
}

func (v *victim) foreignNode() string {
	o := v.known(theNode)
	n := o.reports(3*time.Second, always(nil))
	v.flips()
	return fmt.Sprintf("%d reports, the good Envoy's word counts", n)
}

func (v *victim) unknownClusters() string {
	names := []string{"", goodCheck, goodCheck + "@", v.clusters()[goodCheck] + " ", strings.ToUpper(v.clusters()[goodCheck]), strings.Repeat("x", 100_000)}
	var e []hdstest.Endpoint
	for _, name := range names {
		e = append(e, hdstest.Endpoint{Cluster: name, Address: hdstest.Address("127.0.0.1", 1), Status: corev3.HealthStatus_UNHEALTHY})
	}
	n := v.known("liar-1").reports(3*time.Second, always(e))
	return fmt.Sprintf("%d reports of %d clusters, none heard", n, len(names))
}

func (v *victim) wrongEnums() string {
	numbers := []corev3.HealthStatus{corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DRAINING, 6, 77, -1, math.MaxInt32, math.MinInt32}
	o := v.known("liar-1")
	n := o.reports(3*time.Second, func(turn int) []hdstest.Endpoint {
		e := v.failing()
		for i := range e {
			e[i].Status = numbers[turn%len(numbers)]
		}
		return e
	})
	return fmt.Sprintf("%d reports of numbers such as %d, no answer", n, numbers[3])
}

// wrongShapes are clusters without their one endpoint, or with two, which are
// down, in messages of whatever order.
func (v *victim) wrongShapes() string {
	down := &healthv3.EndpointHealth{HealthStatus: corev3.HealthStatus_UNHEALTHY}
	shapes := [][]*healthv3.LocalityEndpointsHealth{
		nil, {{}}, {{EndpointsHealth: []*healthv3.EndpointHealth{down, down}}}, {{EndpointsHealth: []*healthv3.EndpointHealth{down}}, {}},
		{{}, {EndpointsHealth: []*healthv3.EndpointHealth{down}}},
	}
	o := v.known("liar-1")
	for range 10 {
		for _, shape := range shapes {
			r := &healthv3.EndpointHealthResponse{EndpointsHealth: []*healthv3.EndpointHealth{down}}
			for _, name := range v.clusters() {
				r.ClusterEndpointsHealth = append(r.ClusterEndpointsHealth, &healthv3.ClusterEndpointsHealth{ClusterName: name, LocalityEndpointsHealth: shape})
			}
			require.NoError(v.t, o.stream.SendMsg(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
				RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: r},
			}))
		}
		time.Sleep(100 * time.Millisecond) // as an Envoy would
	}
	return fmt.Sprintf("%d shapes, ten times each, no answer", len(shapes))
}

func (v *victim) manyEndpoints() string {
	e := hdstest.Endpoints(1000)
	even, err := hdstest.Report(e)
	require.NoError(v.t, err)
	e[0].Status = corev3.HealthStatus_UNHEALTHY
	odd, err := hdstest.Report(e)
	require.NoError(v.t, err)
	even, odd = bytes.Repeat(even, 50), bytes.Repeat(odd, 50) // one message, as proto merges them
	o, stranger := v.known("liar-1"), v.known("stranger")
	for range 10 {
		for _, b := range [][]byte{even, odd} {
			require.NoError(v.t, o.stream.SendMsg(b))
			require.NoError(v.t, stranger.stream.SendMsg(b))
		}
	}
	v.flips()
	return fmt.Sprintf("2 x 20 reports of %d MiB each, all read", len(even)>>20)
}

func (v *victim) tooMuch() string {
	o := v.known("liar-1")
	o.say(make([]byte, 33<<20))
	seen := o.ended(codes.ResourceExhausted)
	first, err := v.open(v.dial())
	require.NoError(v.t, err)
	first.say(make([]byte, 20<<20))
	first.ended(codes.InvalidArgument)
	return seen
}

// neverReads is a sidecar whose specifiers change and are longer than what is
// taken unread: the daemon's Send blocks.
func (v *victim) neverReads() string {
	sidecar := v.registerSidecar("big-1", "", 1)
	defer v.deregister("big-1")
	defer v.deregister(sidecar)
	v.register("big-1", 1, map[string]string{"hds_path": "/0"})
	o := v.known(sidecar)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-o.stream.Context().Done()
	}()
	start := time.Now()
	for turn := 1; ; turn++ {
		v.register("big-1", 1, map[string]string{"hds_path": fmt.Sprint("/", turn)})
		v.flips()
		gone := true
		for _, s := range v.status().Observers {
			gone = gone && s.NodeID != sidecar
		}
		if gone {
			break
		}
		require.Less(v.t, time.Since(start), patience, "the stream is ended")
	}
	o.end()
	<-done
	return fmt.Sprintf("ended after %s; flips showed in time", time.Since(start).Round(time.Second))
}
