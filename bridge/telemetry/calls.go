package telemetry

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Calls counts the calls of a gRPC server and their messages, in the families that
// go-grpc-middleware has made usual. That library looks a counter up for each
// message, with labels that it allocates, and reads the clock twice for a duration
// of which nothing is made: a tenth of what receiving a small report costs. Here it
// is done once a call. Its methods are safe for concurrent use.
type Calls struct {
	started, handled, received, sent *prometheus.CounterVec
}

// NewCalls makes the counters; Calls is to be registered, and to intercept.
func NewCalls() *Calls {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(more, labels...))
	}
	return &Calls{
		started:  counter("grpc_server_started_total", "Total number of RPCs started on the server."),
		handled:  counter("grpc_server_handled_total", "Total number of RPCs completed on the server, regardless of success or failure.", "grpc_code"),
		received: counter("grpc_server_msg_received_total", "Total number of RPC stream messages received on the server."),
		sent:     counter("grpc_server_msg_sent_total", "Total number of gRPC stream messages sent by the server."),
	}
}

// Describe implements prometheus.Collector.
func (c *Calls) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range []*prometheus.CounterVec{c.started, c.handled, c.received, c.sent} {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *Calls) Collect(ch chan<- prometheus.Metric) {
	for _, v := range []*prometheus.CounterVec{c.started, c.handled, c.received, c.sent} {
		v.Collect(ch)
	}
}

// Preset makes the counters of all methods of a server, with all codes, be there
// before the first call.
func (c *Calls) Preset(server *grpc.Server) {
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			call := c.call("/"+service+"/"+m.Name, m.IsClientStream, m.IsServerStream)
			for code := codes.OK; code <= codes.Unauthenticated; code++ {
				call.handled(code)
			}
		}
	}
}

// call holds the counters of one method.
type call struct {
	started, received, sent prometheus.Counter
	handled                 func(codes.Code) prometheus.Counter
}

// call finds the counters of a method, by its name of two parts.
func (c *Calls) call(name string, clientStream, serverStream bool) call {
	kind := "unary"
	switch {
	case clientStream && serverStream:
		kind = "bidi_stream"
	case clientStream:
		kind = "client_stream"
	case serverStream:
		kind = "server_stream"
	}
	service, method, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return call{
		started:  c.started.WithLabelValues(kind, service, method),
		received: c.received.WithLabelValues(kind, service, method),
		sent:     c.sent.WithLabelValues(kind, service, method),
		handled: func(code codes.Code) prometheus.Counter {
			return c.handled.WithLabelValues(code.String(), kind, service, method)
		},
	}
}

// end counts the end of a call.
func (c call) end(err error) {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // as the server does
	}
	c.handled(s.Code()).Inc()
}

// Stream implements grpc.StreamServerInterceptor.
func (c *Calls) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	call := c.call(info.FullMethod, info.IsClientStream, info.IsServerStream)
	call.started.Inc()
	err := handler(srv, &countedStream{stream, call.received, call.sent})
	call.end(err)
	return err
}

// Unary implements grpc.UnaryServerInterceptor.
func (c *Calls) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := c.call(info.FullMethod, false, false)
	call.started.Inc()
	call.received.Inc()
	answer, err := handler(ctx, request)
	if err == nil {
		call.sent.Inc()
	}
	call.end(err)
	return answer, err
}

// countedStream counts messages.
type countedStream struct {
	grpc.ServerStream
	received, sent prometheus.Counter
}

// RecvMsg implements grpc.ServerStream.
func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.received.Inc()
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *countedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.sent.Inc()
	}
	return err
}
