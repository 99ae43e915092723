package statsd

import (
	"strconv"
	"strings"

	"github.com/cactus/go-statsd-client/v5/statsd"
	dto "github.com/prometheus/client_model/go"
)

// send sends the series of a family. Histograms and summaries become what statsd
// can add up: how many values there were, and their sum. Gauges are what they
// are; none of the daemon's is negative, which statsd would take for a change.
func (s *Sender) send(client statsd.ExtendedStatSender, family *dto.MetricFamily) {
	for _, m := range family.GetMetric() {
		name := func(suffix string, gauge bool) series {
			return s.config.Dialect.name(family.GetName()+suffix, m.GetLabel(), gauge)
		}
		switch {
		case m.Counter != nil:
			s.increment(client, name("", false), m.Counter.GetValue())
		case m.Gauge != nil:
			to := name("", true)
			_ = client.GaugeFloat(to.name, m.Gauge.GetValue(), 1, to.tags...)
		case m.Histogram != nil:
			s.increment(client, name(".count", false), float64(m.Histogram.GetSampleCount()))
			s.increment(client, name(".sum", false), m.Histogram.GetSampleSum())
		case m.Summary != nil:
			s.increment(client, name(".count", false), float64(m.Summary.GetSampleCount()))
			s.increment(client, name(".sum", false), m.Summary.GetSampleSum())
		}
	}
}

// increment sends by how much a counter has grown since it was last sent. The
// client has integer increments only, but servers take others too: sums are of
// seconds.
func (s *Sender) increment(client statsd.StatSender, to series, total float64) {
	key := to.key()
	grown := total - s.sent[key]
	if grown <= 0 {
		return
	}
	s.sent[key] = total
	_ = client.Raw(to.name, strconv.FormatFloat(grown, 'f', -1, 64)+"|c", 1, to.tags...)
}

// series is what a server knows a series by.
type series struct {
	name string
	tags []statsd.Tag
}

// key identifies the series among those of a sender.
func (s series) key() string {
	var b strings.Builder
	b.WriteString(s.name)
	for _, t := range s.tags {
		b.WriteString("," + t[0] + ":" + t[1])
	}
	return b.String()
}
