package bridge

import (
	"context"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// word is what an Envoy says of an endpoint.
type word string

// The words that are answers, and those that are none.
const (
	saysHealthy   word = "healthy"
	saysUnhealthy word = "unhealthy"
	saysTimeout   word = "timeout"
	saysTooMany   word = "429"
	saysDegraded  word = "degraded"
	saysUnknown   word = "unknown"
	saysDraining  word = "draining"
	saysOdd       word = "odd"
)

// wire is how a word is sent.
func (w word) wire() (status corev3.HealthStatus, code int) {
	switch w {
	case saysHealthy:
		return corev3.HealthStatus_HEALTHY, 200
	case saysUnhealthy:
		return corev3.HealthStatus_UNHEALTHY, 503
	case saysTimeout:
		return corev3.HealthStatus_TIMEOUT, 0
	case saysTooMany:
		return corev3.HealthStatus_UNHEALTHY, 429
	case saysDegraded:
		return corev3.HealthStatus_DEGRADED, 200
	case saysDraining:
		return corev3.HealthStatus_DRAINING, 0
	case saysOdd:
		return 77, 999
	}
	return corev3.HealthStatus_UNKNOWN, 0
}

// retryEvery is the pause of an Envoy that has lost its stream, less what tells
// Envoys apart.
const retryEvery = 1013 * time.Millisecond

// simEnvoy is one Envoy process with one stream at a time, which it opens again
// when it has lost it.
type simEnvoy struct {
	scene *scene
	// name tells Envoys apart, id is the node id that they claim.
	name, id string
	// offset is the pause from a stream's first specifier to its first report, first
	// the time that an endpoint's first probe takes.
	offset, first time.Duration
	// stranger makes it speak of clusters that it was never asked about.
	stranger bool
	leave    context.CancelFunc

	// Under the scene's lock. said is what it says of instances, where that differs
	// from what their apps do; mute ends its reports; lags is until when it does not
	// apply new specifiers; order is that of its stream, 0 without one.
	said     map[string]word
	mute     bool
	lags     time.Time
	order    int
	interval time.Duration
	clusters []simCluster
}

// simCluster is a cluster that an Envoy has applied.
type simCluster struct {
	name    string
	address *corev3.Address
	made    time.Time
}

// check is the check that a cluster is for, and instance its instance.
func (c simCluster) check() string {
	id, _, _ := strings.Cut(c.name, "@")
	return id
}

func (c simCluster) instance() string {
	_, id, _ := strings.Cut(c.check(), ":")
	return id
}

// run opens a stream after the other until ctx ends.
func (e *simEnvoy) run(ctx context.Context) {
	for ctx.Err() == nil {
		if d := e.scene.listening(); d != nil {
			e.stream(ctx, d)
		}
		pause(ctx, retryEvery+e.own())
	}
}

// own is a time that no other Envoy has: those that lost their streams at one moment
// would race for the next ones, and which of two is the newer would be by chance; as
// would be whose report comes first of two at one moment.
func (e *simEnvoy) own() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.name))
	return time.Duration(h.Sum32()%1009) * 7 * time.Microsecond
}

// stream runs one stream to its end.
func (e *simEnvoy) stream(ctx context.Context, d *simDaemon) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.pipes.DialContext(ctx) }))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	stream, err := conn.NewStream(ctx, &healthv3.HealthDiscoveryService_ServiceDesc.Streams[0],
		healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2(proto.Name)}))
	if err != nil {
		return
	}
	hello, err := hdstest.Hello(e.id)
	if err != nil {
		panic(err)
	}
	if stream.SendMsg(hello) != nil {
		return
	}
	specs := make(chan *healthv3.HealthCheckSpecifier)
	go func() {
		defer close(specs)
		for {
			spec := &healthv3.HealthCheckSpecifier{}
			if stream.RecvMsg(spec) != nil {
				return
			}
			specs <- spec
		}
	}()
	e.scene.model.opened(e)
	e.converse(specs, stream)
	e.scene.model.closed(e)
	cancel()
	for range specs { // until the reader has ended
	}
}

// converse applies specifiers and reports until the stream ends. As long as the
// interval is the same, a later specifier keeps the pace of the reports.
func (e *simEnvoy) converse(specs <-chan *healthv3.HealthCheckSpecifier, stream grpc.ClientStream) {
	report := time.NewTimer(time.Hour)
	defer report.Stop()
	var waiting *healthv3.HealthCheckSpecifier
	armed := false
	for {
		select {
		case spec, ok := <-specs:
			if !ok {
				return
			}
			waiting = spec
			e.scene.model.asked(spec)
			if !e.scene.model.lagging(e) {
				e.scene.model.applied(e, waiting)
				waiting = nil
			}
			if !armed {
				armed = true
				report.Reset(e.offset + e.own())
			}
		case <-report.C:
			if waiting != nil && !e.scene.model.lagging(e) {
				e.scene.model.applied(e, waiting)
				waiting = nil
			}
			if endpoints, loud := e.scene.model.report(e); loud {
				b, err := hdstest.Report(endpoints)
				if err != nil {
					panic(err)
				}
				if stream.SendMsg(b) != nil {
					return
				}
			}
			report.Reset(max(e.scene.model.interval(e), 100*time.Millisecond))
		}
	}
}

// apply takes a specifier over: what is in it already goes on, what is new begins
// anew.
func (e *simEnvoy) apply(spec *healthv3.HealthCheckSpecifier) {
	var next []simCluster
	for _, asked := range hdstest.Asked(spec) {
		i := slices.IndexFunc(e.clusters, func(c simCluster) bool { return c.name == asked.Cluster })
		if i >= 0 {
			next = append(next, e.clusters[i])
		} else {
			next = append(next, simCluster{name: asked.Cluster, address: asked.Address, made: time.Now()})
		}
	}
	e.clusters, e.interval = next, spec.GetInterval().AsDuration()
}

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}
