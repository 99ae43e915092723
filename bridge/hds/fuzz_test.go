package hds

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

func bytesOf(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	require.NoError(tb, err)
	return b
}

// answered says whether the message holds an answer for the cluster at all.
func answered(m *healthv3.HealthCheckRequestOrEndpointHealthResponse, cluster string) bool {
	for _, c := range m.GetEndpointHealthResponse().GetClusterEndpointsHealth() {
		for _, l := range c.GetLocalityEndpointsHealth() {
			for _, e := range l.GetEndpointsHealth() {
				if c.GetClusterName() == cluster && isAnswer(e.GetHealthStatus()) {
					return true
				}
			}
		}
	}
	return false
}

// FuzzReport feeds a session with two messages, each of them twice.
func FuzzReport(f *testing.F) {
	_, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asTCP})
	a, b := probes["a"].Cluster, probes["b"].Cluster
	two := reportOf(echo{a, up, 200})
	list := two.GetEndpointHealthResponse().ClusterEndpointsHealth[0].LocalityEndpointsHealth[0]
	list.EndpointsHealth = append(list.EndpointsHealth, list.EndpointsHealth[0])
	hollow := reportOf(echo{a, up, 200}, echo{b, up, 0})
	for i, c := range hollow.GetEndpointHealthResponse().ClusterEndpointsHealth {
		c.LocalityEndpointsHealth = []*healthv3.LocalityEndpointsHealth{{}, {}}[:i] // none, and one without endpoints
	}
	seeds := [][]byte{
		bytesOf(f, hollow),
		nil, {0xff}, bytesOf(f, requestOf("n1")), bytesOf(f, two),
		bytesOf(f, reportOf(echo{a, up, 200}, echo{b, down, 0})), bytesOf(f, reportOf(echo{a, down, 429}, echo{a, up, 1e300})),
		bytesOf(f, reportOf(echo{a, corev3.HealthStatus_DRAINING, 0}, echo{b, -7, 0})), bytesOf(f, reportOf(echo{"", corev3.HealthStatus_DEGRADED, 0})),
	}
	for i := range seeds {
		f.Add(seeds[i], seeds[(i+5)%len(seeds)])
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		plan, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asTCP})
		fewer, _ := planOf(map[string]map[string]string{"b": asTCP})
		s := newSession(1, newIdentity(newNode("n1")), "peer", nil)
		s.commit(plan, t0)
		var fr frame
		word := map[string]bool{}
		for i, data := range [][]byte{first, first, second, second} {
			if i == 2 {
				s.commit(fewer, t0)
				s.commit(plan, t0)
			}
			fr.take(mem.BufferSlice{mem.SliceBuffer(data[:len(data)/2]), mem.SliceBuffer(data[len(data)/2:])})
			before := s.reports
			if _, _, err := s.report(&fr, t0); err != nil {
				assert.Equal(t, before, s.reports, "what is no report does not count")
				return
			}
			assert.Equal(t, before+1, s.reports)
			m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
			require.NoError(t, proto.Unmarshal(data, m))
			for id, p := range probes {
				word[id] = word[id] || answered(m, p.Cluster)
				checkObservation(t, s, p, word[id])
			}
		}
	})
}

// checkObservation checks what holds of an observation after any report.
func checkObservation(t *testing.T, s *session, p *probe.Probe, word bool) {
	t.Helper()
	o := s.observation(p)
	if !o.Answered {
		assert.Equal(t, Observation{NodeID: "n1", Stream: 1}, o)
		return
	}
	assert.True(t, word, "no report has ever held an answer")
	assert.True(t, isAnswer(o.Status))
	assert.True(t, o.Code == 0 || o.Code >= 100 && o.Code <= 599, o.Code)
	assert.True(t, o.Reports >= 0 && uint64(o.Reports) < s.reports, o.Reports)
	assert.True(t, o.WasHealthy || o.Status != up)
	assert.Equal(t, t0, o.At)
}

// oneMessage is a server's stream on which one message comes.
type oneMessage struct {
	grpc.ServerStream
	data []byte
}

func (o oneMessage) RecvMsg(m any) error {
	return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(o.data)}, m)
}

func FuzzFirstMessage(f *testing.F) {
	for _, m := range []proto.Message{requestOf("n1"), requestOf(""), requestOf("web-1-sidecar-proxy"), reportOf(), reportOf(echo{"c", up, 0})} {
		f.Add(bytesOf(f, m))
	}
	f.Add([]byte{0xff})
	plan, _ := planOf(map[string]map[string]string{"a": asHTTP})
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr frame
		ident, err := (&stream{server: &Server{}, grpc: oneMessage{data: data}}).first(context.Background(), &fr)
		if err != nil {
			assert.Zero(t, ident)
			return
		}
		m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
		require.NoError(t, proto.Unmarshal(data, m))
		assert.Equal(t, m.GetHealthCheckRequest().GetNode().GetId(), ident.id)
		assert.NotEmpty(t, ident.id)
		kind, probes := plan.assign(ident)
		assert.True(t, kind == NodeEnvoy || len(probes) == 0)
	})
}
