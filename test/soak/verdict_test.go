package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// usual is a sample of a daemon that does well.
func usual(at time.Duration) sample {
	return sample{at: at, resident: 40e6, live: 5e6, goroutines: 50, descriptors: 20, threads: 9, series: 240, entries: 42}
}

// soaked is the report of two hours, a sample a minute, each changed by change,
// which is given the share of the time that has gone.
func soaked(change func(s *sample, share float64)) report {
	r := report{options: options{during: 2 * time.Hour}, seen: sightings{looks: 1}}
	for i := range 120 {
		s := usual(time.Duration(i+1) * time.Minute)
		change(&s, float64(i)/119)
		r.samples = append(r.samples, s)
	}
	return r
}

func TestWhatStaysOrComesAndGoesIsFlat(t *testing.T) {
	assert.NoError(t, soaked(func(*sample, float64) {}).fault())
	assert.NoError(t, soaked(func(s *sample, share float64) { s.descriptors += share * 6 }).fault(), "a tenth and the slack are allowed")
	assert.NoError(t, soaked(func(s *sample, share float64) {
		if int(share*119)%2 == 0 { // a collector's pace
			s.resident, s.goroutines = s.resident+5e6, s.goroutines+6
		}
	}).fault())
	assert.NoError(t, soaked(func(s *sample, share float64) {
		if share == 0.5 || share == 1 { // single peaks
			s.live, s.descriptors = 50e6, 200
		}
	}).fault())
}

func TestWhatGrowsIsRefused(t *testing.T) {
	for name, grow := range map[string]func(*sample, float64){
		"resident size":  func(s *sample, share float64) { s.resident += share * 15e6 },
		"live heap":      func(s *sample, share float64) { s.live += share * 1.5e6 },
		"goroutines":     func(s *sample, share float64) { s.goroutines += share * 20 },
		"descriptors":    func(s *sample, share float64) { s.descriptors += share * 12 },
		"threads":        func(s *sample, share float64) { s.threads += share * 8 },
		"series":         func(s *sample, share float64) { s.series += share * 100 },
		"status entries": func(s *sample, share float64) { s.entries += share * 14 },
	} {
		r := soaked(grow)
		assert.ErrorContains(t, r.fault(), name+": from ")
		var out bytes.Buffer
		require.NoError(t, r.print(&out))
		assert.Regexp(t, name+` .* GROWS`, out.String())
		assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("GROWS")))
	}
}

func TestTheWarmUpIsNotJudged(t *testing.T) {
	r := soaked(func(s *sample, share float64) {
		if share < 1.0/24-1.0/119 {
			s.resident, s.live = 10e6, 1e6
		}
	})
	assert.NoError(t, r.fault())
	assert.Len(t, warm(r.samples, r.during), 116)
}

func TestASoakFailsForOtherReasonsToo(t *testing.T) {
	for text, spoil := range map[string]func(*report){
		"interrupted":                func(r *report) { r.interrupted = true },
		"the catalog was never seen": func(r *report) { r.seen.looks = 0 },
		"a wrong status was seen 2":  func(r *report) { r.seen.wrong = 2 },
		"there are 2 measurements":   func(r *report) { r.samples = r.samples[118:] },
		"there are 0 measurements":   func(r *report) { r.samples = nil },
	} {
		r := soaked(func(*sample, float64) {})
		spoil(&r)
		assert.ErrorContains(t, r.fault(), text)
	}
	tooShort := options{during: time.Second, out: io.Discard}
	assert.EqualError(t, tooShort.runWith(t.Context(), ""), "-for must be at least 15s")
}

func TestTheOracleKnowsAWrongStatus(t *testing.T) {
	up, down := &instance{name: "up", healthy: true}, &instance{name: "down"}
	o := &oracle{node: &node{steady: []*instance{up, down}}, since: map[string]time.Time{}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	looks := func(statuses map[string]string) {
		o.look(statuses, now)
		now = now.Add(lookEvery)
	}
	looks(map[string]string{"hds:up": "passing", "hds:down": "critical"})
	looks(map[string]string{"hds:up": "warning"})
	assert.NoError(t, o.seen.fault())
	assert.Equal(t, sightings{looks: 2, absent: 1}, o.seen)

	looks(map[string]string{"hds:up": "critical", "hds:down": "critical"})
	looks(map[string]string{"hds:up": "critical", "hds:down": "passing"})
	looks(map[string]string{"hds:up": "passing", "hds:down": "critical"})
	looks(map[string]string{"hds:up": "critical", "hds:down": "critical"})
	assert.EqualError(t, o.seen.fault(), "a wrong status was seen 4 times; first, hds:up was critical at 2026-01-02T03:04:05Z")
	assert.Equal(t, 2*lookEvery, o.seen.longest)
}

func TestTheSeriesAreThoseThatPrometheusKeeps(t *testing.T) {
	var s sample
	require.NoError(t, s.read([]byte(`# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1
# TYPE go_goroutines gauge
go_goroutines 3
# TYPE process_open_fds gauge
process_open_fds 4
# TYPE go_threads gauge
go_threads 5
# TYPE answers_total counter
answers_total{code="200"} 1
answers_total{code="500"} 1
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 1
took_seconds_bucket{le="+Inf"} 1
took_seconds_sum 1
took_seconds_count 1
`)))
	assert.Equal(t, sample{resident: 1, goroutines: 3, descriptors: 4, threads: 5, series: 10}, s)
	assert.ErrorContains(t, s.read(nil), "the daemon's metrics have no ")
}

func TestTheLiveHeapIsThatOfTheProfile(t *testing.T) {
	live, err := liveHeap([]byte("heap profile: 1: 2 [3: 4] @ heap/16384\n\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 4660912\n# HeapSys = 9\n"))
	require.NoError(t, err)
	assert.EqualValues(t, 4660912, live)
	_, err = liveHeap([]byte("heap profile"))
	assert.ErrorContains(t, err, "no HeapAlloc")
}
