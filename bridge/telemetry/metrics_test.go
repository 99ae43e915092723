package telemetry

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everything calls every method once.
func everything(m *Metrics) {
	m.SnapshotRead(time.Second, nil)
	m.SnapshotRead(time.Second, errors.New("away"))
	m.Doorbell(true)
	m.TokenUnknown(true)
	m.Instances(3)
	m.Probes("http", 2)
	m.Problems("meta", 1)
	m.Observers("sidecar", 1)
	m.StreamOpened()
	m.StreamEnded()
	m.StreamRefused("limit")
	m.ReportChanged()
	m.ReportUnchanged()
	m.ReportInvalid()
	m.SpecifierSent()
	m.SpecifierOverdue()
	m.SpecifiersUnapplied(1)
	m.GuardDropped(1)
	m.Checks("", "pending", 1)
	m.CheckWrite("update", "ok", time.Millisecond)
	m.Refreshed()
	m.Transition("passing")
	m.CheckLost()
	m.CheckDrift()
	m.ForeignChecks(1)
	m.OrphanChecks(1)
	m.WriteDelay(time.Millisecond)
	m.Reloaded(nil)
}

func TestReferenceListsEveryMetric(t *testing.T) {
	m := New("1.2.3")
	everything(m)
	gathered, err := m.Registry().Gather()
	require.NoError(t, err)
	var want []string
	for _, family := range gathered {
		if !strings.HasPrefix(family.GetName(), "consul_hds_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		slices.Sort(labels)
		kind := strings.ToLower(family.GetType().String())
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", family.GetName(), kind, strings.Join(labels, ", ")))
	}
	assert.ElementsMatch(t, want, referenceRows(t))
}

// referenceRows returns the rows of docs/metrics.md without their last column.
func referenceRows(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `consul_hds_") {
			cells := strings.Split(line, " | ")
			require.Len(t, cells, 4, line)
			require.Greater(t, len(cells[3]), 10, line)
			rows = append(rows, strings.Join(cells[:3], " | ")+" |")
		}
	}
	return rows
}

func TestLint(t *testing.T) {
	m := New("1.2.3")
	everything(m)
	problems, err := testutil.GatherAndLint(m.Registry())
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestValues(t *testing.T) {
	m := New("1.2.3")
	everything(m)
	expected := `
# HELP consul_hds_doorbell_up 1 if the catalog tells of changes; 0 if they are found by polling only.
# TYPE consul_hds_doorbell_up gauge
consul_hds_doorbell_up 1
# HELP consul_hds_info The running version; always 1.
# TYPE consul_hds_info gauge
consul_hds_info{version="1.2.3"} 1
# HELP consul_hds_reports_total Reports received from Envoys.
# TYPE consul_hds_reports_total counter
consul_hds_reports_total{result="changed"} 1
consul_hds_reports_total{result="invalid"} 1
consul_hds_reports_total{result="unchanged"} 1
# HELP consul_hds_snapshot_reads_total Attempts to read the services and checks of the Consul agent.
# TYPE consul_hds_snapshot_reads_total counter
consul_hds_snapshot_reads_total{result="error"} 1
consul_hds_snapshot_reads_total{result="ok"} 1
# HELP consul_hds_synced 1 if the newest attempt to read the Consul agent succeeded.
# TYPE consul_hds_synced gauge
consul_hds_synced 0
# HELP consul_hds_token_unknown 1 if Consul does not know the token: it was deleted or has expired.
# TYPE consul_hds_token_unknown gauge
consul_hds_token_unknown 1
`
	names := []string{
		"consul_hds_doorbell_up", "consul_hds_info", "consul_hds_reports_total",
		"consul_hds_snapshot_reads_total", "consul_hds_synced", "consul_hds_token_unknown",
	}
	require.NoError(t, testutil.GatherAndCompare(m.Registry(), strings.NewReader(expected), names...))
}

func TestHandler(t *testing.T) {
	m := New("1.2.3")
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	assert.Equal(t, 200, recorder.Code)
	for _, name := range []string{
		`consul_hds_info{version="1.2.3"} 1`, "go_goroutines", "process_start_time_seconds",
		`consul_hds_checks{phase="stale",status="critical"} 0`,
	} {
		assert.Contains(t, recorder.Body.String(), name)
	}
}

func TestTheLastReload(t *testing.T) {
	m := New("")
	assert.InDelta(t, 1, testutil.ToFloat64(m.reloadOK), 0, "the start has taken the config over")
	m.Reloaded(errors.New("a typo"))
	assert.InDelta(t, 0, testutil.ToFloat64(m.reloadOK), 0)
	m.Reloaded(nil)
	assert.InDelta(t, 1, testutil.ToFloat64(m.reloadOK), 0)
}

// Two daemons in one process, as in tests, have nothing in common.
func TestNoGlobalRegistry(t *testing.T) {
	a, b := New("a"), New("b")
	a.StreamOpened()
	assert.InDelta(t, 0, testutil.ToFloat64(b.streamsOpened), 0)
}

// A report costs no allocation: there may be hundreds in a second.
func TestReportsDoNotAllocate(t *testing.T) {
	m := New("")
	assert.Zero(t, testing.AllocsPerRun(100, m.ReportUnchanged))
}
