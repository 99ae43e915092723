package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// liarConfig is that of the daemons of liars: the profiles are there because
// asking for the one of the heap collects garbage, so that memory can be compared.
const liarConfig = quick + `
log_level = "info"
admin {
  enable_debug = true
}
hds {
  node_ids    = ["` + theNode + `", "liar-*"]
  max_streams = 256
}
`

// What a liar may leave behind, compared with the daemon before the first one. The
// heap is what is in use after a collection.
const (
	moreGoroutines  = 30
	moreDescriptors = 15
	moreHeap        = 8 << 20
	// linesPerLiar is how much one may have logged, in lines.
	linesPerLiar = 40
	// settling bounds the wait until all of it is given back: connections without a
	// stream are ended after half a minute at the latest.
	settling = 40 * time.Second
	// aftermath is how long all is watched still, once it is given back.
	aftermath = 200 * time.Millisecond
)

// moreResident is what the kernel may still count: the runtime gives memory back
// slowly, and the race detector what it needs itself never.
func moreResident() int {
	if os.Getenv("LAB_RACE") == "1" {
		return 1 << 30
	}
	return 128 << 20
}

// mischief is what a liar does. do returns what was seen of it, in a few words.
type mischief struct {
	name string
	do   func(*victim) string
}

// victim is a world with a good Envoy, a good instance whose check must stay
// passing, and one that flips.
type victim struct {
	*world
	flipping flippable
	start    vitals
	// leaves are how the present liar gives up what it holds.
	leaves []func()
}

// flippable is an app whose status can be set.
type flippable interface{ SetStatus(code int) }

// The checks of a victim.
const (
	goodCheck     = "hds:good-1"
	flippingCheck = "hds:flip-1"
)

// newVictim starts an Envoy in a world, and waits until all is well.
func newVictim(w *world) *victim {
	w.t.Helper()
	w.startEnvoy(theNode)
	good, flipping := w.app(), w.app()
	// Its patience is for a machine that the liars keep busy. A liar who is believed
	// needs none of it: what an Envoy reports has passed the threshold.
	w.register("good-1", good.Port(), map[string]string{"hds": "http", "hds_timeout": "5s", "hds_unhealthy_threshold": "4"})
	w.register("flip-1", flipping.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has(goodCheck, api.HealthPassing))
	w.eventually(patience, w.has(flippingCheck, api.HealthPassing))
	v := &victim{world: w, flipping: flipping}
	v.begin()
	return v
}

// begin takes the daemon as it is now for what it has to come back to.
func (v *victim) begin() {
	v.t.Helper()
	var err error
	v.start, err = v.vitals()
	require.NoError(v.t, err)
}

// endure lets the liars come one after the other. Each is a row: what was done,
// for how long, what was seen, what is allowed, and the verdict.
func (v *victim) endure(liars []mischief) {
	for _, m := range liars {
		v.t.Run(m.name, func(t *testing.T) {
			w := *v.world
			w.t = t
			one := &victim{world: &w, flipping: v.flipping, start: v.start}
			t.Cleanup(one.leave)
			one.suffer(m)
		})
	}
}

// suffer lets one liar do its worst, and compares the daemon with what it was.
func (v *victim) suffer(m mischief) {
	v.t.Helper()
	lines := v.lines()
	s := v.consul.Sample(map[string]string{goodCheck: api.HealthPassing})
	v.t.Cleanup(func() { s.Stop() }) // if the liar has ended the test
	start := time.Now()
	seen := m.do(v)
	v.leave()
	lasted := time.Since(start)
	v.eventually(settling, v.recovered)
	settled := time.Since(start) - lasted
	v.always(aftermath, v.ready)
	samples := s.Stop()
	now, err := v.vitals()
	require.NoError(v.t, err)
	logged := v.lines() - lines
	assert.Empty(v.t, samples.Wrong, "the good Envoy's check")
	assert.NotZero(v.t, samples.Count)
	assert.LessOrEqual(v.t, logged, linesPerLiar, "the log is flooded:\n%s", v.daemon.LogTail(20))
	verdict := "held"
	if v.t.Failed() {
		verdict = "BROKEN"
	}
	v.t.Logf("liar: %s | %s, settled in %s | seen: %s; %d samples, %d wrong; %d lines; %s | allowed: no wrong status, ready, +%d goroutines, +%d descriptors, +%d MiB of heap, +%d MiB resident, %d lines | %s",
		m.name, lasted.Round(10*time.Millisecond), settled.Round(10*time.Millisecond), seen, samples.Count, len(samples.Wrong), logged, now.since(v.start),
		moreGoroutines, moreDescriptors, moreHeap>>20, moreResident()>>20, linesPerLiar, verdict)
}

// leave ends what the present liar holds.
func (v *victim) leave() {
	for _, f := range v.leaves {
		f()
	}
	v.leaves = nil
}

// ready says that the daemon does its work.
func (v *victim) ready() error {
	_, err := v.daemon.Get(v.ctx, "/v1/ready")
	return err
}

// recovered says that the daemon is ready and as small as it was.
func (v *victim) recovered() error {
	if err := v.ready(); err != nil {
		return err
	}
	now, err := v.vitals()
	if err != nil {
		return err
	}
	if now.goroutines > v.start.goroutines+moreGoroutines || now.descriptors > v.start.descriptors+moreDescriptors ||
		now.heap > v.start.heap+moreHeap || now.resident > v.start.resident+moreResident() {
		return fmt.Errorf("not given back: %s", now.since(v.start))
	}
	return nil
}

// flips fails the test unless a change shows soon, and another back, while the
// machine is busy with the liar.
func (v *victim) flips() {
	v.t.Helper()
	const busy = 5 * time.Second
	v.flipping.SetStatus(500)
	v.eventually(flips+busy, v.has(flippingCheck, api.HealthCritical))
	v.flipping.SetStatus(200)
	v.eventually(flips+busy, v.has(flippingCheck, api.HealthPassing))
}

// lines is the length of the daemon's log.
func (v *victim) lines() int { return strings.Count(v.daemon.Log(), "\n") }

// vitals are what the daemon holds.
type vitals struct{ goroutines, descriptors, heap, resident int }

// since is what has come, compared with an earlier look.
func (v vitals) since(o vitals) string {
	return fmt.Sprintf("%+d goroutines, %+d descriptors, %+.1f MiB of heap, %+.1f MiB resident", v.goroutines-o.goroutines,
		v.descriptors-o.descriptors, float64(v.heap-o.heap)/(1<<20), float64(v.resident-o.resident)/(1<<20))
}

// vitals collects the daemon's garbage and looks at what is left.
func (v *victim) vitals() (vitals, error) {
	if _, err := v.daemon.Get(v.ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return vitals{}, err
	}
	families, err := v.gathered()
	if err != nil {
		return vitals{}, err
	}
	one := func(name string) int { return int(families[name].GetMetric()[0].GetGauge().GetValue()) }
	return vitals{
		goroutines: one("go_goroutines"), descriptors: one("process_open_fds"),
		heap: one("go_memstats_heap_alloc_bytes"), resident: one("process_resident_memory_bytes"),
	}, nil
}

// metrics are the daemon's, by name.
func (w *world) metrics() map[string]*dto.MetricFamily {
	w.t.Helper()
	families, err := w.gathered()
	require.NoError(w.t, err)
	return families
}

// gathered is metrics, while the daemon may be too busy to answer.
func (w *world) gathered() (map[string]*dto.MetricFamily, error) {
	text, err := w.daemon.Get(w.ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}
