// Package telemetry holds the daemon's metrics, each with a small typed method,
// so that other packages can declare the few they need as an interface of their
// own. Labels have a bounded set of values: never a service, node or check id.
// docs/metrics.md lists every metric.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the metrics of one daemon, with a registry of their own. Its
// methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	families
}

// New makes the metrics of a daemon of that version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), families: newFamilies()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registry.MustRegister(m.all()...)
	m.info.WithLabelValues(version).Set(1)
	m.reloadOK.Set(1)
	m.preset()
	return m
}

// Registry is where the metrics of others, such as those of the gRPC server, are
// to be registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// SnapshotRead counts an attempt to read the agent, which took d.
func (m *Metrics) SnapshotRead(d time.Duration, err error) {
	m.snapshotReads.WithLabelValues(result(err)).Inc()
	m.snapshotReadSeconds.Observe(d.Seconds())
	m.synced.Set(number(err == nil))
}

// TokenUnknown says whether Consul does not know the token.
func (m *Metrics) TokenUnknown(yes bool) { m.tokenUnknown.Set(number(yes)) }

// Doorbell says whether the catalog tells of changes.
func (m *Metrics) Doorbell(available bool) { m.doorbellUp.Set(number(available)) }

// Instances is the number of instances in the newest snapshot.
func (m *Metrics) Instances(n int) { m.instances.Set(float64(n)) }

// Probes is the number of probes of a kind: http, tcp or grpc.
func (m *Metrics) Probes(kind string, n int) { m.probes.WithLabelValues(kind).Set(float64(n)) }

// Problems is the number of problems of a source: meta, config, consul or envoy.
func (m *Metrics) Problems(source string, n int) {
	m.problems.WithLabelValues(source).Set(float64(n))
}

// Observers is the number of open streams of a kind: sidecar, node or unknown.
func (m *Metrics) Observers(kind string, n int) { m.observers.WithLabelValues(kind).Set(float64(n)) }

// StreamOpened counts a stream that was accepted.
func (m *Metrics) StreamOpened() { m.streamsOpened.Inc() }

// StreamEnded counts the end of an accepted stream.
func (m *Metrics) StreamEnded() { m.streamsEnded.Inc() }

// StreamRefused counts a stream that was refused. The reason is a fixed word.
func (m *Metrics) StreamRefused(reason string) { m.streamsRefused.WithLabelValues(reason).Inc() }

// ReportChanged counts a report that differs from the one before.
func (m *Metrics) ReportChanged() { m.reportsChanged.Inc() }

// ReportUnchanged counts a report that equals the one before.
func (m *Metrics) ReportUnchanged() { m.reportsUnchanged.Inc() }

// ReportInvalid counts a report that could not be understood.
func (m *Metrics) ReportInvalid() { m.reportsInvalid.Inc() }

// SpecifierSent counts a specifier that was sent to an Envoy.
func (m *Metrics) SpecifierSent() { m.specifiersSent.Inc() }

// SpecifierOverdue counts a specifier that an Envoy did not apply in time.
func (m *Metrics) SpecifierOverdue() { m.specifiersOverdue.Inc() }

// SpecifiersUnapplied is the number of observers that are overdue now.
func (m *Metrics) SpecifiersUnapplied(n int) { m.specifiersUnapplied.Set(float64(n)) }

// GuardDropped counts clusters that the last guard took out of a specifier.
func (m *Metrics) GuardDropped(n int) { m.guardDrops.Add(float64(n)) }

// Checks is the number of checks of a status and a phase. The status is empty
// where there is no check yet, and is shown as "none".
func (m *Metrics) Checks(status, phase string, n int) {
	if status == "" {
		status = "none"
	}
	m.checks.WithLabelValues(status, phase).Set(float64(n))
}

// CheckWrite counts a write to the agent, which took d. The op is register,
// update or deregister; the result is ok, gone (the agent does not know it),
// denied (by ACLs), away (the agent could not be reached) or error.
func (m *Metrics) CheckWrite(op, result string, d time.Duration) {
	m.checkWrites.WithLabelValues(op, result).Inc()
	m.checkWriteSeconds.WithLabelValues(op).Observe(d.Seconds())
}

// Refreshed counts an update that only kept a check alive.
func (m *Metrics) Refreshed() { m.refreshes.Inc() }

// Transition counts a change of a check to that status.
func (m *Metrics) Transition(status string) { m.transitions.WithLabelValues(status).Inc() }

// CheckLost counts a check that the agent had lost.
func (m *Metrics) CheckLost() { m.checksLost.Inc() }

// CheckDrift counts a check whose status the catalog has other than the agent.
func (m *Metrics) CheckDrift() { m.checkDrift.Inc() }

// ForeignChecks is the number of checks of others that have an id of ours.
func (m *Metrics) ForeignChecks(n int) { m.checksForeign.Set(float64(n)) }

// OrphanChecks is the number of checks of ours that no probe explains.
func (m *Metrics) OrphanChecks(n int) { m.checksOrphaned.Set(float64(n)) }

// ShadowChecks is the number of checks in shadow mode that would have a status;
// empty is shown as "none".
func (m *Metrics) ShadowChecks(status string, n int) {
	if status == "" {
		status = "none"
	}
	m.shadowChecks.WithLabelValues(status).Set(float64(n))
}

// ShadowCompared counts a comparison of a check in shadow mode with the other
// checks of its instance.
func (m *Metrics) ShadowCompared(agree bool) {
	result := "disagree"
	if agree {
		result = "agree"
	}
	m.shadowComparisons.WithLabelValues(result).Inc()
}

// WriteDelay is the time from an Envoy's report of a change to the agent's answer
// to the write that it caused.
func (m *Metrics) WriteDelay(d time.Duration) { m.writeDelaySeconds.Observe(d.Seconds()) }

// Reloaded counts an attempt to reload the config.
func (m *Metrics) Reloaded(err error) {
	m.reloads.WithLabelValues(result(err)).Inc()
	m.reloadOK.Set(number(err == nil))
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
