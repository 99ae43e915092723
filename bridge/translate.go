package bridge

import (
	"fmt"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/lookup"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// answers is what the statuses of a report mean (design part 4). A status that
// is not among them is no answer.
var answers = map[corev3.HealthStatus]health.Answer{
	corev3.HealthStatus_HEALTHY:   health.Healthy,
	corev3.HealthStatus_UNHEALTHY: health.Unhealthy,
	corev3.HealthStatus_TIMEOUT:   health.Timeout,
	corev3.HealthStatus_DEGRADED:  health.Degraded,
}

// definition is what health has to know of a probe.
func definition(p *probe.Probe) health.Definition {
	s := p.Settings
	period := s.Interval + s.Interval*probe.JitterPercent/100 + s.Timeout
	d := health.Definition{
		Subject:  p.Subject(),
		Grace:    probe.Grace(s),
		Recovery: period * time.Duration(s.HealthyThreshold),
	}
	switch {
	case s.Kind == probe.HTTP:
		d.Expects, d.Warns = p.Expects, true
	case s.Kind == probe.GRPC:
		d.Expects = func(code int) bool { return code == http.StatusOK } // of every answer
	}
	if s.Kind == probe.GRPC || s.Kind == probe.HTTP && len(s.Receive) > 0 {
		d.Confirm = period * time.Duration(s.UnhealthyThreshold-1)
	}
	return d
}

// observations puts what Envoys said into the words of health.
func observations(seen []hds.Observation) []health.Observation {
	out := make([]health.Observation, len(seen))
	for i, o := range seen {
		out[i] = health.Observation{
			Observer: o.NodeID, Stream: o.Stream, Code: o.Code,
			Reports: o.Reports, Quiet: o.Quiet, WasHealthy: o.WasHealthy, At: o.At,
		}
		if o.Answered {
			out[i].Answer = answers[o.Status]
		}
	}
	return out
}

// known puts what was looked up into the words of probe.
func known[T any](entries map[string]lookup.Entry[T]) map[string]probe.Known[T] {
	out := make(map[string]probe.Known[T], len(entries))
	for k, e := range entries {
		out[k] = probe.Known[T](e)
	}
	return out
}

// lastReport is when the newest report came that held an answer.
func lastReport(seen []hds.Observation) time.Time {
	var last time.Time
	for _, o := range seen {
		if o.Answered && o.At.After(last) {
			last = o.At
		}
	}
	return last
}

// absent says that who is to answer is not there.
func absent(p *probe.Probe) string {
	switch {
	case len(p.Sidecars) > 0:
		return awaited(p) + " is not connected"
	case p.ByNode:
		return "no node Envoy is connected"
	}
	return "no sidecar of the instance is registered"
}

// awaited names who is to answer first.
func awaited(p *probe.Probe) string {
	switch {
	case len(p.Sidecars) > 0:
		return fmt.Sprintf("sidecar Envoy %s", p.Sidecars[0])
	case p.ByNode:
		return "a node Envoy"
	}
	return "a sidecar Envoy (none is registered)"
}
