package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/consul-hds/consul-hds/test/lab"
)

// sample is what the daemon used at one time of the soak, with all instances
// there and nothing going on.
type sample struct {
	at time.Duration
	// resident and live are bytes: of memory, and of the heap after a collection.
	resident, live                   float64
	goroutines, descriptors, threads float64
	// series are those of /metrics, entries those of all lists of the status.
	series, entries float64
	// heap is the profile of the live heap, as go tool pprof reads it.
	heap []byte
}

// measure collects the daemon's garbage and looks at what is left.
func measure(ctx context.Context, d *lab.Daemon) (s sample, err error) {
	st, err := d.Status(ctx)
	if err != nil {
		return s, err
	}
	s.entries = float64(len(st.Observers) + len(st.Refused) + len(st.Checks) + len(st.Problems))
	// Two collections: a sync.Pool lets go of what is in it at the second.
	if s.heap, err = d.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return s, err
	}
	profile, err := d.Get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return s, err
	}
	if s.live, err = liveHeap(profile); err != nil {
		return s, err
	}
	text, err := d.Get(ctx, "/metrics")
	if err != nil {
		return s, err
	}
	return s, s.read(text)
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap is the size of the heap right after the collection that a text profile
// begins with. The metrics would count the garbage of making the profile, too,
// which grows with every new stack in it.
func liveHeap(profile []byte) (float64, error) {
	m := heapAlloc.FindSubmatch(profile)
	if m == nil {
		return 0, errors.New("the daemon's heap profile has no HeapAlloc")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// read takes the quantities that the daemon's metrics have.
func (s *sample) read(metrics []byte) error {
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(metrics))
	if err != nil {
		return fmt.Errorf("reading the daemon's metrics: %w", err)
	}
	for name, to := range map[string]*float64{
		"process_resident_memory_bytes": &s.resident,
		"go_goroutines":                 &s.goroutines,
		"process_open_fds":              &s.descriptors,
		"go_threads":                    &s.threads,
	} {
		m := families[name].GetMetric()
		if len(m) != 1 {
			return fmt.Errorf("the daemon's metrics have no %s", name)
		}
		*to = m[0].GetGauge().GetValue()
	}
	for _, f := range families {
		s.series += seriesOf(f)
	}
	return nil
}

// seriesOf are the lines of a family, as a Prometheus server keeps them.
func seriesOf(f *dto.MetricFamily) (n float64) {
	for _, m := range f.GetMetric() {
		switch {
		case m.GetHistogram() != nil: // with its sum and its count
			n += float64(len(m.GetHistogram().GetBucket()) + 2)
		case m.GetSummary() != nil:
			n += float64(len(m.GetSummary().GetQuantile()) + 2)
		default:
			n++
		}
	}
	return n
}
