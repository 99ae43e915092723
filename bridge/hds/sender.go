package hds

import (
	"fmt"
	"sync"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
)

// outbox holds what a stream is to send. There is a sender as long as there is
// something.
type outbox struct {
	mu sync.Mutex
	// unsent is the newest specifier that is not sent yet.
	unsent  *healthv3.HealthCheckSpecifier
	sending bool
}

// put puts a specifier in the place of one that waits, and tells whether that
// needs a sender.
func (o *outbox) put(spec *healthv3.HealthCheckSpecifier) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.sending
	o.unsent, o.sending = spec, true
	return first
}

// take takes the specifier to send; without one the sender is none any more.
func (o *outbox) take() *healthv3.HealthCheckSpecifier {
	o.mu.Lock()
	defer o.mu.Unlock()
	spec := o.unsent
	o.unsent, o.sending = nil, spec != nil
	return spec
}

// post hands a specifier to the sender.
func (st *stream) post(spec *healthv3.HealthCheckSpecifier) {
	if st.outbox.put(spec) {
		go st.send()
	}
}

// send sends the newest specifier, and goes on while there is a newer one. A
// blocked Send ends only when the handler returns (facts/envoy-hds.md 0c).
func (st *stream) send() {
	for spec := st.outbox.take(); spec != nil; spec = st.outbox.take() {
		blocked := time.AfterFunc(sendTimeout, func() { st.end(errSendBlocked) })
		err := st.grpc.SendMsg(spec)
		blocked.Stop()
		if err != nil {
			st.end(fmt.Errorf("sending a specifier: %w", err))
			return // and stays the sender: nothing is sent any more
		}
		st.server.config.Metrics.SpecifierSent()
		st.log().Trace("specifier sent", "clusters", len(spec.GetClusterHealthChecks()))
	}
}
