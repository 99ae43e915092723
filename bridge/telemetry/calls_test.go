package telemetry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// oneWord is a stream on which one message comes.
type oneWord struct {
	grpc.ServerStream
	heard bool
}

func (s *oneWord) RecvMsg(any) error {
	if s.heard {
		return io.EOF
	}
	s.heard = true
	return nil
}

func (*oneWord) SendMsg(m any) error {
	err, _ := m.(error)
	return err
}

func TestCallsAndTheirMessagesAreCounted(t *testing.T) {
	calls := NewCalls()
	err := calls.Stream(nil, &oneWord{}, &grpc.StreamServerInfo{FullMethod: "/a.B/Watch", IsServerStream: true, IsClientStream: true}, func(_ any, s grpc.ServerStream) error {
		require.NoError(t, s.RecvMsg(nil))
		require.ErrorIs(t, s.RecvMsg(nil), io.EOF)
		require.NoError(t, s.SendMsg(nil))
		require.NoError(t, s.SendMsg(nil))
		require.Error(t, s.SendMsg(errors.New("gone")))
		return context.Canceled
	})
	assert.ErrorIs(t, err, context.Canceled)
	for _, failure := range []error{nil, status.Error(codes.NotFound, "")} {
		_, err = calls.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/Get"}, func(context.Context, any) (any, error) { return nil, failure })
		assert.Equal(t, failure, err)
	}
	assert.NoError(t, testutil.CollectAndCompare(calls, strings.NewReader(`
# HELP grpc_server_handled_total Total number of RPCs completed on the server, regardless of success or failure.
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="Canceled",grpc_method="Watch",grpc_service="a.B",grpc_type="bidi_stream"} 1
grpc_server_handled_total{grpc_code="NotFound",grpc_method="Get",grpc_service="a.B",grpc_type="unary"} 1
grpc_server_handled_total{grpc_code="OK",grpc_method="Get",grpc_service="a.B",grpc_type="unary"} 1
# HELP grpc_server_msg_received_total Total number of RPC stream messages received on the server.
# TYPE grpc_server_msg_received_total counter
grpc_server_msg_received_total{grpc_method="Get",grpc_service="a.B",grpc_type="unary"} 2
grpc_server_msg_received_total{grpc_method="Watch",grpc_service="a.B",grpc_type="bidi_stream"} 1
# HELP grpc_server_msg_sent_total Total number of gRPC stream messages sent by the server.
# TYPE grpc_server_msg_sent_total counter
grpc_server_msg_sent_total{grpc_method="Get",grpc_service="a.B",grpc_type="unary"} 1
grpc_server_msg_sent_total{grpc_method="Watch",grpc_service="a.B",grpc_type="bidi_stream"} 2
# HELP grpc_server_started_total Total number of RPCs started on the server.
# TYPE grpc_server_started_total counter
grpc_server_started_total{grpc_method="Get",grpc_service="a.B",grpc_type="unary"} 2
grpc_server_started_total{grpc_method="Watch",grpc_service="a.B",grpc_type="bidi_stream"} 1
`)))
}

func TestAMessageCostsNoAllocationToCount(t *testing.T) {
	stream := &countedStream{&oneWord{}, prometheus.NewCounter(prometheus.CounterOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = stream.SendMsg(nil) }))
}

func TestTheCountersOfAServerAreThereFromTheBegin(t *testing.T) {
	calls, server := NewCalls(), grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "a.B", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Get"}},
		Streams: []grpc.StreamDesc{{StreamName: "Up", ClientStreams: true}, {StreamName: "Down", ServerStreams: true}},
	}, nil)
	calls.Preset(server)
	assert.Equal(t, 3*3+3*17, testutil.CollectAndCount(calls))
	assert.Equal(t, 3*17, testutil.CollectAndCount(calls.handled))
}
