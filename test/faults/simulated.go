package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// message is what an Envoy sends.
type message = healthv3.HealthCheckRequestOrEndpointHealthResponse

// simulated is a simulated Envoy, which reports without rest what it is told to say
// of all that it is asked for. It is safe for concurrent use.
type simulated struct {
	cancel  context.CancelFunc
	conn    *grpc.ClientConn
	stream  healthv3.HealthDiscoveryService_StreamHealthCheckClient
	running sync.WaitGroup

	mu        sync.Mutex // is held while anything is sent
	endpoints []hdstest.Endpoint
	healthy   bool
	report    *message // nil until it is asked for something
	err       error    // why it ended
}

// simulate opens a stream to the daemon as the Envoy of that id, and reports each
// time an interval has passed. What it probes is healthy at first.
func (w *world) simulate(id string, every time.Duration) (*simulated, error) {
	address := "unix:" + strings.TrimPrefix(w.daemon.HDSAddr(), "unix://")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &simulated{cancel: cancel, conn: conn, healthy: true}
	if err := s.hello(ctx, id); err != nil {
		s.close()
		return nil, fmt.Errorf("simulating %s: %w", id, err)
	}
	s.running.Go(s.listen)
	s.running.Go(func() { s.reportEach(ctx, every) })
	return s, nil
}

func (s *simulated) hello(ctx context.Context, id string) error {
	late := time.AfterFunc(patience, s.cancel)
	defer late.Stop()
	bytes, err := hdstest.Hello(id)
	if err != nil {
		return err
	}
	hello := &message{}
	if err := proto.Unmarshal(bytes, hello); err != nil {
		return err
	}
	s.stream, err = healthv3.NewHealthDiscoveryServiceClient(s.conn).StreamHealthCheck(ctx)
	if err != nil {
		return err
	}
	return s.stream.Send(hello)
}

// listen takes in what the Envoy is asked for.
func (s *simulated) listen() {
	for {
		spec, err := s.stream.Recv()
		s.mu.Lock()
		if err == nil {
			s.endpoints = hdstest.Asked(spec)
			err = s.say()
		}
		if err != nil {
			s.err = errors.Join(s.err, err)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *simulated) reportEach(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.report != nil {
			s.err = errors.Join(s.err, s.stream.Send(s.report))
		}
		ended := s.err != nil
		s.mu.Unlock()
		if ended {
			return
		}
	}
}

// is turns what the Envoy reports, and reports it at once.
func (s *simulated) is(healthy bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healthy = healthy
	return errors.Join(s.err, s.say())
}

// isHealthy is what the Envoy reports.
func (s *simulated) isHealthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healthy
}

// say makes a report of how things are, and sends it. The caller holds mu.
func (s *simulated) say() error {
	for n := range s.endpoints {
		s.endpoints[n].Status, s.endpoints[n].Code = corev3.HealthStatus_UNHEALTHY, 503
		if s.healthy {
			s.endpoints[n].Status, s.endpoints[n].Code = corev3.HealthStatus_HEALTHY, 200
		}
	}
	bytes, err := hdstest.Report(s.endpoints)
	if err != nil {
		return err
	}
	report := &message{}
	if err := proto.Unmarshal(bytes, report); err != nil {
		return err
	}
	s.report = report
	return s.stream.Send(report)
}

// close ends the Envoy, and returns why it had ended before, if it had.
func (s *simulated) close() error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	s.cancel()
	err = errors.Join(err, s.conn.Close())
	s.running.Wait()
	return err
}
