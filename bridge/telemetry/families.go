package telemetry

import "github.com/prometheus/client_golang/prometheus"

const namespace = "consul_hds"

type (
	counter = prometheus.Counter
	gauge   = prometheus.Gauge
)

// families are the metrics as Prometheus knows them.
type families struct {
	consulFamilies
	hdsFamilies
	checkFamilies
	info     *prometheus.GaugeVec
	reloads  *prometheus.CounterVec
	reloadOK gauge
}

type consulFamilies struct {
	snapshotReads       *prometheus.CounterVec
	snapshotReadSeconds prometheus.Histogram
	synced, doorbellUp  gauge
	tokenUnknown        gauge
	instances           gauge
	probes, problems    *prometheus.GaugeVec
}

type hdsFamilies struct {
	observers                                        *prometheus.GaugeVec
	streamsOpened, streamsEnded                      counter
	streamsRefused, reports                          *prometheus.CounterVec
	reportsChanged, reportsUnchanged, reportsInvalid counter
	specifiersSent, specifiersOverdue, guardDrops    counter
	specifiersUnapplied                              gauge
}

type checkFamilies struct {
	checks                            *prometheus.GaugeVec
	checkWrites, transitions          *prometheus.CounterVec
	checkWriteSeconds                 *prometheus.HistogramVec
	writeDelaySeconds                 prometheus.Histogram
	refreshes, checksLost, checkDrift counter
	checksForeign, checksOrphaned     gauge
	shadowChecks                      *prometheus.GaugeVec
	shadowComparisons                 *prometheus.CounterVec
}

func newFamilies() families {
	return families{
		consulFamilies: newConsulFamilies(),
		hdsFamilies:    newHDSFamilies(),
		checkFamilies:  newCheckFamilies(),
		info:           newGaugeVec("info", "The running version; always 1.", "version"),
		reloads:        newCounterVec("reloads_total", "Attempts to reload the config.", "result"),
		reloadOK:       newGauge("config_last_reload_successful", "1 unless the newest attempt to reload the config failed."),
	}
}

func newConsulFamilies() consulFamilies {
	return consulFamilies{
		snapshotReads: newCounterVec("snapshot_reads_total", "Attempts to read the services and checks of the Consul agent.", "result"),
		snapshotReadSeconds: newHistogram("snapshot_read_duration_seconds", "Time of an attempt to read the Consul agent.",
			prometheus.ExponentialBuckets(0.001, 2.5, 10)),
		synced:       newGauge("synced", "1 if the newest attempt to read the Consul agent succeeded."),
		tokenUnknown: newGauge("token_unknown", "1 if Consul does not know the token: it was deleted or has expired."),
		doorbellUp:   newGauge("doorbell_up", "1 if the catalog tells of changes; 0 if they are found by polling only."),
		instances:    newGauge("instances", "Service instances of the node, proxies included."),
		probes:       newGaugeVec("probes", "Probes derived from services and config.", "kind"),
		problems:     newGaugeVec("problems", "Problems that the status shows.", "source"),
	}
}

func newHDSFamilies() hdsFamilies {
	f := hdsFamilies{
		observers:           newGaugeVec("observers", "Envoys with an open HDS stream.", "kind"),
		streamsOpened:       newCounter("streams_opened_total", "HDS streams accepted."),
		streamsEnded:        newCounter("streams_ended_total", "Accepted HDS streams that have ended."),
		streamsRefused:      newCounterVec("streams_refused_total", "HDS streams, and connections before them, that were refused.", "reason"),
		reports:             newCounterVec("reports_total", "Reports received from Envoys.", "result"),
		specifiersSent:      newCounter("specifiers_sent_total", "Specifiers sent to Envoys."),
		specifiersOverdue:   newCounter("specifiers_overdue_total", "Specifiers that an Envoy did not apply in time."),
		specifiersUnapplied: newGauge("specifiers_unapplied", "Observers that are overdue to apply their specifier."),
		guardDrops:          newCounter("guard_drops_total", "Clusters that the last guard took out of a specifier. Any is a bug."),
	}
	f.reportsChanged = f.reports.WithLabelValues("changed")
	f.reportsUnchanged = f.reports.WithLabelValues("unchanged")
	f.reportsInvalid = f.reports.WithLabelValues("invalid")
	return f
}

func newCheckFamilies() checkFamilies {
	return checkFamilies{
		checks:      newGaugeVec("checks", "Checks by status and phase.", "status", "phase"),
		checkWrites: newCounterVec("check_writes_total", "Writes of checks to the Consul agent.", "op", "result"),
		checkWriteSeconds: newHistogramVec("check_write_duration_seconds", "Time of a write to the Consul agent.",
			prometheus.ExponentialBuckets(0.001, 2.5, 11), "op"),
		writeDelaySeconds: newHistogram("check_write_delay_seconds", "From the report of a change to the agent's answer to its write.",
			prometheus.ExponentialBuckets(0.001, 2.5, 11)),
		refreshes:      newCounter("check_refreshes_total", "Updates that only kept a check alive."),
		transitions:    newCounterVec("check_transitions_total", "Changes of a check's status.", "status"),
		checksLost:     newCounter("checks_lost_total", "Checks that the Consul agent had lost."),
		checkDrift:     newCounter("check_drift_total", "Checks that the catalog showed other than the agent."),
		checksForeign:  newGauge("checks_foreign", "Checks of others under an id of ours."),
		checksOrphaned: newGauge("checks_orphaned", "Checks of ours that no probe explains."),
		shadowChecks:   newGaugeVec("shadow_checks", "Checks in shadow mode, by what they would be.", "status"),
		shadowComparisons: newCounterVec("shadow_comparisons_total",
			"Comparisons of checks in shadow mode with the other checks of their instances, one a second.", "result"),
	}
}

func (f *families) all() []prometheus.Collector {
	return []prometheus.Collector{
		f.info, f.reloads, f.reloadOK,
		f.snapshotReads, f.snapshotReadSeconds, f.synced, f.tokenUnknown, f.doorbellUp, f.instances, f.probes, f.problems,
		f.observers, f.streamsOpened, f.streamsEnded, f.streamsRefused, f.reports,
		f.specifiersSent, f.specifiersOverdue, f.specifiersUnapplied, f.guardDrops,
		f.checks, f.checkWrites, f.checkWriteSeconds, f.writeDelaySeconds, f.refreshes, f.transitions,
		f.checksLost, f.checkDrift, f.checksForeign, f.checksOrphaned, f.shadowChecks, f.shadowComparisons,
	}
}

// preset makes the series whose labels are known, so that a rate over them sees
// the first event, and an alert on them finds a value.
func (f *families) preset() {
	preset(f.snapshotReads.WithLabelValues, "ok", "error")
	preset(f.reloads.WithLabelValues, "ok", "error")
	preset(f.streamsRefused.WithLabelValues, "max_streams", "strangers", "first_message", "connections", "tls", "identity", "token", "permission", "consul")
	preset(f.transitions.WithLabelValues, "passing", "warning", "critical")
	preset(f.problems.WithLabelValues, "meta", "config", "consul", "envoy")
	preset(f.probes.WithLabelValues, "http", "tcp", "grpc")
	preset(f.shadowChecks.WithLabelValues, "none", "passing", "warning", "critical")
	preset(f.shadowComparisons.WithLabelValues, "agree", "disagree")
	preset(f.observers.WithLabelValues, "sidecar", "node", "unknown")
	for _, op := range []string{"register", "update", "deregister"} {
		f.checkWriteSeconds.WithLabelValues(op)
		for _, result := range []string{"ok", "gone", "denied", "away", "error"} {
			f.checkWrites.WithLabelValues(op, result)
		}
	}
	for _, status := range []string{"none", "passing", "warning", "critical"} {
		for _, phase := range []string{"pending", "adopted", "reported", "stale"} {
			f.checks.WithLabelValues(status, phase)
		}
	}
}

func preset[T any](series func(...string) T, values ...string) {
	for _, value := range values {
		series(value)
	}
}

func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func newGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func newGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func newHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}
