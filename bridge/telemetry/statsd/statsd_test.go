package statsd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture has a family of each type.
type fixture struct {
	*prometheus.Registry
	streams prometheus.Counter
	writes  *prometheus.CounterVec
	checks  *prometheus.GaugeVec
	info    *prometheus.GaugeVec
	delay   *prometheus.HistogramVec
	pause   prometheus.Summary
}

func newFixture() *fixture {
	f := &fixture{
		Registry: prometheus.NewRegistry(),
		streams:  prometheus.NewCounter(prometheus.CounterOpts{Name: "consul_hds_streams_total"}),
		writes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "consul_hds_writes_total"}, []string{"result", "op"}),
		checks:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consul_hds_checks"}, []string{"status"}),
		info:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consul_hds_info"}, []string{"version"}),
		delay:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "consul_hds_delay_seconds"}, []string{"op"}),
		pause:    prometheus.NewSummary(prometheus.SummaryOpts{Name: "go_pause_seconds"}),
	}
	f.MustRegister(f.streams, f.writes, f.checks, f.info, f.delay, f.pause)
	f.streams.Add(2)
	f.writes.WithLabelValues("ok", "update").Inc()
	f.writes.WithLabelValues("error", "update")
	f.checks.WithLabelValues("passing").Set(3)
	f.info.WithLabelValues("1.2|3").Set(1)
	f.delay.WithLabelValues("update").Observe(0.25)
	f.delay.WithLabelValues("update").Observe(0.5)
	f.pause.Observe(0.125)
	return f
}

// server is a statsd server.
type server struct {
	t    *testing.T
	conn net.PacketConn
}

func listen(t *testing.T, network, address string) *server {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &server{t, conn}
}

// lines reads n lines, and returns them in order.
func (s *server) lines(n int) []string {
	s.t.Helper()
	require.NoError(s.t, s.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	var out []string
	for buf := make([]byte, 1<<16); len(out) < n; {
		size, _, err := s.conn.ReadFrom(buf)
		require.NoError(s.t, err, "after %q", out)
		require.LessOrEqual(s.t, size, 1432, "what fits into a packet of an Ethernet")
		out = append(out, strings.Split(string(buf[:size]), "\n")...)
	}
	slices.Sort(out)
	return out
}

func newSender(config Config) *Sender {
	config.Logger = hclog.NewNullLogger()
	return New(config)
}

func TestPlain(t *testing.T) {
	f, s := newFixture(), listen(t, "udp", "127.0.0.1:0")
	sender := newSender(Config{Gatherer: f, Address: s.conn.LocalAddr().String(), Dialect: Plain{Host: "n1.example"}})
	require.NoError(t, sender.pass(t.Context(), time.Second))
	assert.Equal(t, []string{
		"consul_hds.delay_seconds.count.update:2|c",
		"consul_hds.delay_seconds.sum.update:0.75|c",
		"consul_hds.go_pause_seconds.count:1|c",
		"consul_hds.go_pause_seconds.sum:0.125|c",
		"consul_hds.n1_example.checks.passing:3|g",
		"consul_hds.n1_example.info.1_2_3:1|g",
		"consul_hds.streams_total:2|c",
		"consul_hds.writes_total.update.ok:1|c",
	}, s.lines(8))

	f.streams.Add(5)
	f.checks.WithLabelValues("passing").Set(1)
	f.delay.WithLabelValues("update").Observe(0.25)
	require.NoError(t, sender.pass(t.Context(), time.Second))
	assert.Equal(t, []string{
		"consul_hds.delay_seconds.count.update:1|c",
		"consul_hds.delay_seconds.sum.update:0.25|c",
		"consul_hds.n1_example.checks.passing:1|g",
		"consul_hds.n1_example.info.1_2_3:1|g",
		"consul_hds.streams_total:5|c",
	}, s.lines(5), "counters by what they have grown, gauges as they are")
}

func TestTagged(t *testing.T) {
	f := newFixture()
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unixgram" {
				address = filepath.Join(t.TempDir(), "dsd.socket")
			}
			s := listen(t, network, address)
			address = s.conn.LocalAddr().String()
			if network == "unixgram" {
				address = "unix://" + address
			}
			sender := newSender(Config{Gatherer: f, Address: address, Dialect: Tagged{Tags: []string{"env:prod", "url:a:b"}}})
			require.NoError(t, sender.pass(t.Context(), time.Second))
			assert.Equal(t, []string{
				"consul_hds.checks:3|g|#env:prod,url:a:b,status:passing",
				"consul_hds.delay_seconds.count:2|c|#env:prod,url:a:b,op:update",
				"consul_hds.delay_seconds.sum:0.75|c|#env:prod,url:a:b,op:update",
				"consul_hds.go_pause_seconds.count:1|c|#env:prod,url:a:b",
				"consul_hds.go_pause_seconds.sum:0.125|c|#env:prod,url:a:b",
				"consul_hds.info:1|g|#env:prod,url:a:b,version:1.2_3",
				"consul_hds.streams_total:2|c|#env:prod,url:a:b",
				"consul_hds.writes_total:1|c|#env:prod,url:a:b,op:update,result:ok",
			}, s.lines(8))
		})
	}
}

func TestManySeriesMakeSeveralPackets(t *testing.T) {
	registry, s := prometheus.NewRegistry(), listen(t, "udp", "127.0.0.1:0")
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consul_hds_many"}, []string{"value"})
	registry.MustRegister(gauge)
	for i := range 500 {
		gauge.WithLabelValues(strings.Repeat("x", i%50) + string(rune('a'+i/50))).Set(1)
	}
	sender := newSender(Config{Gatherer: registry, Address: s.conn.LocalAddr().String(), Dialect: Plain{}})
	require.NoError(t, sender.pass(t.Context(), time.Second))
	lines := s.lines(500)
	assert.Len(t, slices.Compact(lines), 500)
}

// Run sends once in an interval, and the rest at the end.
func TestRun(t *testing.T) {
	f, s := newFixture(), listen(t, "udp", "127.0.0.1:0")
	sender := newSender(Config{Gatherer: f, Address: s.conn.LocalAddr().String(), Dialect: Plain{}, Interval: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sender.Run(ctx) }()
	assert.Contains(t, s.lines(8), "consul_hds.streams_total:2|c")
	cancel()
	require.NoError(t, <-done)

	s = listen(t, "udp", "127.0.0.1:0")
	sender = newSender(Config{Gatherer: f, Address: s.conn.LocalAddr().String(), Dialect: Plain{}, Interval: time.Hour})
	require.NoError(t, sender.Run(ctx), "it has ended before it began")
	assert.Contains(t, s.lines(8), "consul_hds.streams_total:2|c")
}

// flaky is a dialer that finds the server when it is told to.
type flaky struct{ up atomic.Bool }

func (f *flaky) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !f.up.Load() {
		return nil, errors.New("no such host")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// What was counted while the server's name was not found is sent later, and the
// log tells of it once.
func TestTheServerIsFoundLater(t *testing.T) {
	f, s, way := newFixture(), listen(t, "udp", "127.0.0.1:0"), new(flaky)
	var log bytes.Buffer
	sender := New(Config{
		Gatherer: f, Address: s.conn.LocalAddr().String(), Dialect: Plain{},
		Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), Dial: way.dial,
	})
	for range 3 {
		sender.tell(sender.pass(t.Context(), time.Second))
		f.streams.Inc()
	}
	way.up.Store(true)
	for range 2 {
		sender.tell(sender.pass(t.Context(), time.Second))
	}
	assert.Contains(t, s.lines(8), "consul_hds.streams_total:5|c")
	assert.Equal(t, 1, strings.Count(log.String(), "no such host"), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "works again"), log.String())
}

// Neither a port where nobody listens nor a socket that nobody reads holds up a
// pass, and the next one tries again.
func TestNobodyListens(t *testing.T) {
	f := newFixture()
	wide := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consul_hds_wide"}, []string{"value"})
	f.MustRegister(wide)
	for i := range 1000 {
		wide.WithLabelValues(strings.Repeat("x", 1000+i)).Set(1) // a packet each
	}
	gone := listen(t, "udp", "127.0.0.1:0")
	require.NoError(t, gone.conn.Close())
	path := filepath.Join(t.TempDir(), "dsd.socket")
	listen(t, "unixgram", path) // which is full after a few packets
	for address, fault := range map[string]error{
		gone.conn.LocalAddr().String(): syscall.ECONNREFUSED, "unix://" + path: os.ErrDeadlineExceeded, "unix://" + path + "2": os.ErrNotExist,
	} {
		sender := newSender(Config{Gatherer: f, Address: address, Dialect: Plain{}})
		for range 2 {
			start := time.Now()
			require.ErrorIs(t, sender.pass(t.Context(), time.Second), fault, address)
			assert.Less(t, time.Since(start), 2*time.Second, address)
		}
	}
}

// An end that comes while the name is looked up is not held up.
func TestTheEndDoesNotWaitForALookUp(t *testing.T) {
	sender := newSender(Config{
		Gatherer: newFixture(), Address: "statsd.example:8125", Dialect: Plain{}, Interval: time.Millisecond,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.NoError(t, sender.Run(ctx))
	assert.Less(t, time.Since(start), 2*time.Second, "the last pass has 300 ms")
}
