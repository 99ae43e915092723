package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// verbatim is the codec that sends bytes as they are.
type verbatim struct{ encoding.CodecV2 }

// arrived is a message with the time when it came, before it was decoded.
type arrived struct {
	at   time.Time
	spec *healthv3.HealthCheckSpecifier
}

// Unmarshal implements encoding.CodecV2.
func (c verbatim) Unmarshal(data mem.BufferSlice, v any) error {
	a := v.(*arrived)
	a.at, a.spec = time.Now(), &healthv3.HealthCheckSpecifier{}
	return c.CodecV2.Unmarshal(data, a.spec)
}

// Marshal implements encoding.CodecV2.
func (c verbatim) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// envoy is a simulated one, on a connection of its own.
type envoy struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	// specs are the specifiers that came; a new one takes an unread one's place.
	specs chan *arrived

	// endpoints are those it was asked for.
	endpoints []hdstest.Endpoint
	// mu is held while report, the newest, is sent.
	mu      sync.Mutex
	report  []byte
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// connect opens a stream and says hello. config is nil for plain text.
func connect(target, id string, config *tls.Config) (*envoy, error) {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(
		grpc.WaitForReady(true), grpc.ForceCodecV2(verbatim{encoding.GetCodecV2(proto.Name)}), grpc.MaxCallRecvMsgSize(32<<20)))
	if err != nil {
		return nil, err
	}
	e := &envoy{conn: conn, specs: make(chan *arrived, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	if err := e.hello(ctx, id); err != nil {
		e.close()
		return nil, fmt.Errorf("connecting %s to %s: %w", id, target, err)
	}
	e.running.Go(e.listen)
	return e, nil
}

func (e *envoy) hello(ctx context.Context, id string) (err error) {
	opening, stop := context.WithTimeout(ctx, patience)
	defer stop()
	unhang := context.AfterFunc(opening, func() {
		if e.stream == nil {
			e.cancel()
		}
	})
	defer unhang()
	stream, err := e.conn.NewStream(ctx, &healthv3.HealthDiscoveryService_ServiceDesc.Streams[0], healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName)
	if err != nil {
		return err
	}
	e.stream = stream
	b, err := hdstest.Hello(id)
	if err != nil {
		return err
	}
	return e.stream.SendMsg(b)
}

func (e *envoy) listen() {
	for {
		spec := &arrived{}
		if err := e.stream.RecvMsg(spec); err != nil {
			return
		}
		select {
		case <-e.specs:
		default:
		}
		e.specs <- spec
	}
}

// close ends the Envoy.
func (e *envoy) close() {
	e.cancel()
	_ = e.conn.Close() // of a process that is of no more use
	e.running.Wait()
}

// awaitSpec waits for a specifier of n clusters, and tells when it came.
func (e *envoy) awaitSpec(ctx context.Context, n int) (*healthv3.HealthCheckSpecifier, time.Time, error) {
	timeout := time.After(patience)
	for {
		select {
		case got := <-e.specs:
			if len(got.spec.GetClusterHealthChecks()) == n {
				return got.spec, got.at, nil
			}
		case <-ctx.Done():
			return nil, time.Time{}, context.Cause(ctx)
		case <-timeout:
			return nil, time.Time{}, fmt.Errorf("no specifier of %d clusters within %s", n, patience)
		}
	}
}

// apply makes the Envoy report what it is asked for, all of it healthy.
func (e *envoy) apply(spec *healthv3.HealthCheckSpecifier) error {
	e.endpoints = hdstest.Asked(spec)
	report, err := hdstest.Report(e.endpoints)
	if err != nil {
		return err
	}
	return e.say(report)
}

// flipped is the report in which an endpoint is up or down from now on.
func (e *envoy) flipped(i int, up bool) ([]byte, error) {
	e.endpoints[i].Status, e.endpoints[i].Code = corev3.HealthStatus_UNHEALTHY, 503
	if up {
		e.endpoints[i].Status, e.endpoints[i].Code = corev3.HealthStatus_HEALTHY, 200
	}
	return hdstest.Report(e.endpoints)
}

// say reports at once, and goes on to say the same.
func (e *envoy) say(report []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.report = report
	return e.stream.SendMsg(report)
}

// reportEvery makes the Envoy report at that pace, changed or not, until it is
// closed or what it says is not heard any more.
func (e *envoy) reportEvery(interval time.Duration) {
	e.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-e.stream.Context().Done():
				return
			case <-tick.C:
				e.mu.Lock()
				err := e.stream.SendMsg(e.report)
				e.mu.Unlock()
				if err != nil {
					return
				}
			}
		}
	})
}
