package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// canned is an agent that answers with what it was given, by path.
type canned map[string][]byte

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(c[r.URL.Path])),
	}, nil
}

// answers are what an agent says of n instances, each with a check, as it words it.
func answers(tb testing.TB, n, port int) canned {
	tb.Helper()
	services, checks := map[string]api.AgentService{}, map[string]api.AgentCheck{}
	for i := range n {
		id := fmt.Sprintf("steady-%05d", i)
		at := api.ServiceAddress{Address: "127.0.0.1", Port: port}
		services[id] = api.AgentService{
			ID: id, Service: id, Tags: []string{}, Meta: map[string]string{"hds": "http"}, Port: port, Address: "127.0.0.1",
			Weights: api.AgentWeights{Passing: 1, Warning: 1}, Datacenter: "dc1", TaggedAddresses: map[string]api.ServiceAddress{"lan_ipv4": at, "wan_ipv4": at},
		}
		checks["hds:"+id] = api.AgentCheck{
			Node: "n1", CheckID: "hds:" + id, Name: "Envoy HDS: http /", Status: "passing", Type: CheckTypeTTL, ServiceID: id, ServiceName: id,
			Notes: "consul-hds: written by the daemon", Output: "http GET http://127.0.0.1:10000/: healthy, says Envoy node-1",
		}
		port = 10000 + i
	}
	c := canned{}
	for path, v := range map[string]any{"/v1/agent/services": services, "/v1/agent/checks": checks} {
		b, err := json.Marshal(v)
		require.NoError(tb, err)
		c[path] = b
	}
	return c
}

// reader is a watcher that does not run, whose agent answers by what is returned
// last.
func reader(tb testing.TB, n int) (w *Watcher, agent canned) {
	tb.Helper()
	agent = answers(tb, n, 1)
	c, err := api.NewClient(&api.Config{HttpClient: &http.Client{Transport: Bodies{agent}}})
	require.NoError(tb, err)
	w, err = New(Config{Client: c, Node: Node{Name: "n1", Address: "192.0.2.1"}})
	require.NoError(tb, err)
	require.NoError(tb, w.readOnce(tb.Context()))
	require.Len(tb, w.Snapshot().Checks, n)
	return w, agent
}

// cpu is the CPU time that this process has used, in nanoseconds: on a machine that
// is busy with other things, wall time says little.
func cpu(tb testing.TB) int64 {
	var spent unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &spent))
	return spent.Utime.Nano() + spent.Stime.Nano()
}

// BenchmarkPoll is what it costs to read an agent on which nothing has changed.
func BenchmarkPoll(b *testing.B) { benchmarkRead(b, 1) }

// BenchmarkOneChange is what it costs to read an agent on which one instance has
// changed, and to find out which.
func BenchmarkOneChange(b *testing.B) { benchmarkRead(b, 2) }

// benchmarkRead reads an agent that has so many states, one after the other.
func benchmarkRead(b *testing.B, states int) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, agent := reader(b, n)
			bodies := [][]byte{agent["/v1/agent/services"], answers(b, n, 2)["/v1/agent/services"]}
			b.ReportAllocs()
			before := cpu(b)
			for i := 1; b.Loop(); i++ {
				agent["/v1/agent/services"] = bodies[i%states]
				require.NoError(b, w.readOnce(b.Context()))
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// TestAPollCostsLittle holds the allocations down of what happens each second, and
// of a change: they must not grow with the node.
func TestAPollCostsLittle(t *testing.T) {
	w, agent := reader(t, 1000)
	bodies := [][]byte{agent["/v1/agent/services"], answers(t, 1000, 2)["/v1/agent/services"]}
	poll := func() { require.NoError(t, w.readOnce(t.Context())) }
	assert.Less(t, testing.AllocsPerRun(10, poll), 200.)
	i, revision := 0, w.Snapshot().Revision
	assert.Less(t, testing.AllocsPerRun(10, func() {
		i++
		agent["/v1/agent/services"] = bodies[i%2]
		poll()
	}), 300.)
	assert.Greater(t, w.Snapshot().Revision, revision, "there was something to find")
}
