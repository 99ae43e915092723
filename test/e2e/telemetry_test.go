package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// statsd is a server that keeps the lines it is sent.
type statsd struct {
	conn net.PacketConn
	done chan struct{}

	mu    sync.Mutex
	lines []string
}

func newStatsd(t *testing.T) *statsd {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &statsd{conn: conn, done: make(chan struct{})}
	go s.serve()
	t.Cleanup(func() { _ = conn.Close(); <-s.done })
	return s
}

func (s *statsd) serve() {
	defer close(s.done)
	for buf := make([]byte, 1<<16); ; {
		n, _, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.lines = append(s.lines, strings.Split(string(buf[:n]), "\n")...)
		s.mu.Unlock()
	}
}

// has says that a line has come.
func (s *statsd) has(line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if l == line {
			return nil
		}
	}
	return fmt.Errorf("no line %q among %d", line, len(s.lines))
}

// stopDaemon ends the daemon in order.
func (w *world) stopDaemon() {
	w.t.Helper()
	code, err := w.daemon.Stop(w.ctx)
	require.NoError(w.t, err)
	require.Zero(w.t, code)
}

// Metrics reach statsd and DogStatsD servers while the daemon runs, and what was
// counted last when it ends.
func TestMetricsAreSentToStatsd(t *testing.T) {
	t.Parallel() // it waits for an interval
	plain, tagged := newStatsd(t), newStatsd(t)
	w := newWorld(t, quick+fmt.Sprintf(`
telemetry {
  statsd_address = %q
  dogstatsd_addr = %q
  dogstatsd_tags = ["env:test"]
}
`, plain.conn.LocalAddr(), tagged.conn.LocalAddr()))
	w.startEnvoy(theNode)
	app := w.app()
	w.register("web-1", app.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	host, err := os.Hostname()
	require.NoError(t, err)
	w.eventually(patience, func() error {
		if err := tagged.has("consul_hds.checks:1|g|#env:test,phase:reported,status:passing"); err != nil {
			return err
		}
		return plain.has("consul_hds." + strings.ReplaceAll(host, ".", "_") + ".checks.reported.passing:1|g")
	})
	w.eventually(slack, func() error { return plain.has("consul_hds.streams_opened_total:1|c") }) // in a later packet
	w.eventually(slack, func() error { return tagged.has("consul_hds.streams_opened_total:1|c|#env:test") })

	w.stopDaemon()
	w.eventually(time.Second+slack, func() error { return plain.has("consul_hds.streams_ended_total:1|c") })
	w.eventually(time.Second+slack, func() error { return tagged.has("consul_hds.streams_ended_total:1|c|#env:test") })
}

// The daemon works, and ends in time, although nothing takes its metrics.
func TestNobodyTakesTheMetrics(t *testing.T) {
	t.Parallel() // it waits for an interval
	gone := newStatsd(t)
	require.NoError(t, gone.conn.Close())
	w := newWorld(t, quick+fmt.Sprintf("telemetry {\n  statsd_address = %q\n  dogstatsd_addr = \"unix:///nowhere/dsd.socket\"\n}\n", gone.conn.LocalAddr()))
	w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	const told = "sending metrics failed, trying again"
	w.eventually(patience, func() error {
		if n := strings.Count(w.daemon.Log(), told); n != 2 {
			return fmt.Errorf("the log tells of %d failures, want one of each server", n)
		}
		return nil
	})
	start := time.Now()
	w.stopDaemon()
	assert.Less(t, time.Since(start), 4*time.Second, "what the contract says of SIGTERM")
	assert.Equal(t, 2, strings.Count(w.daemon.Log(), told))
}

// The histogram of delays begins at Envoy's report and ends at Consul's answer:
// here the agent answers a second and a half late.
func TestTheDelayIsFromReportToAnswer(t *testing.T) {
	t.Parallel()
	const late = 1500 * time.Millisecond
	w := newConsul(t, lab.ConsulOptions{})
	proxy := w.behindProxy(0, quick)
	app := w.app()
	w.register("web-1", app.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	delays := func() (uint64, float64) {
		h := w.family("consul_hds_check_write_delay_seconds").GetHistogram()
		return h.GetSampleCount(), h.GetSampleSum()
	}
	var before uint64
	var sum float64
	w.eventually(patience, func() error { // the answer to the last write may be on its way
		if before, sum = delays(); before != 1 {
			return fmt.Errorf("%d delays, want that of the first report", before)
		}
		return nil
	})
	assert.Less(t, sum, late.Seconds())

	proxy.OnWrite(func(http.ResponseWriter) bool { time.Sleep(late); return false })
	start := time.Now()
	app.SetStatus(500)
	w.eventually(patience, w.agentHas("hds:web-1", api.HealthCritical))
	w.eventually(patience, func() error {
		if n, _ := delays(); n != 2 {
			return fmt.Errorf("%d delays, want 2", n)
		}
		return nil
	})
	_, total := delays()
	took := total - sum
	t.Logf("%.3f s of the %.3f s from the failure", took, time.Since(start).Seconds())
	assert.GreaterOrEqual(t, took, late.Seconds(), "it ends with the answer")
	assert.Less(t, took, time.Since(start).Seconds()-0.2, "it does not begin with the failure: a second probe comes 0.2 s later")
}
