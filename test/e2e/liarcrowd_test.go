package e2e

import (
	"fmt"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// strangers is how many streams of unknown Envoys may be open at once.
const strangers = 128

// strangersIn are how many there are now, which has to be as many as may be.
func (v *victim) strangersIn() (n int) {
	v.t.Helper()
	for _, o := range v.status().Observers {
		if o.Kind == "unknown" {
			n++
		}
	}
	assert.LessOrEqual(v.t, n, strangers)
	assert.NotZero(v.t, n)
	return n
}

// manyStreams are opened at once by strangers in few connections.
func (v *victim) manyStreams() string {
	hello := &healthv3.HealthCheckRequestOrEndpointHealthResponse{RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{
		HealthCheckRequest: &healthv3.HealthCheckRequest{Node: &corev3.Node{Id: "stranger"}},
	}}
	before := v.refusedAll()
	var wg sync.WaitGroup
	for range 10 {
		conn := v.dial()
		for range 100 {
			wg.Go(func() {
				if o, err := v.open(conn); err == nil && o.stream.SendMsg(hello) == nil {
					_ = o.stream.RecvMsg(&healthv3.HealthCheckSpecifier{}) // a specifier, or its end
				}
			})
		}
	}
	wg.Wait()
	in, out := v.strangersIn(), v.refusedAll()-before
	assert.NotZero(v.t, out)
	v.known("liar-1").specifier() // strangers keep nobody out that is known
	v.flips()
	return fmt.Sprintf("%d are in, %d were refused", in, out)
}

// manyConnections are more than are served, with a stream each.
func (v *victim) manyConnections() string {
	const many = 600 // of at most 2 x 256 + 16
	before := v.refusedAll()
	for range many {
		s := v.speak()
		s.headers(1)
		s.hello(1, "stranger")
	}
	v.flips()
	in, out := v.strangersIn(), v.refusedAll()-before
	assert.NotZero(v.t, out)
	return fmt.Sprintf("of %d, %d are in, %d were refused", many, in, out)
}

// refusedAll is how many were refused for whatever reason.
func (v *victim) refusedAll() (n int) {
	for _, m := range v.metrics()["consul_hds_streams_refused_total"].GetMetric() {
		n += int(m.GetCounter().GetValue())
	}
	return n
}

func (v *victim) storm() string {
	const times = 100
	for range times {
		conn := v.dial()
		o, err := v.open(conn)
		require.NoError(v.t, err)
		hello, err := hdstest.Hello("liar-1")
		require.NoError(v.t, err)
		o.say(hello)
		o.specifier()
		require.NoError(v.t, conn.Close())
	}
	v.flips()
	return fmt.Sprintf("%d streams, one after the other", times)
}
