package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// bound is the contract's: how long after a change of an instance that has
// answered before its check has to say so, at a threshold.
func bound(interval, timeout, reportInterval time.Duration, threshold int) time.Duration {
	return (interval*105/100+timeout)*time.Duration(threshold) + reportInterval + 200*time.Millisecond
}

// quickBound is bound in a world whose config is quick.
func quickBound(threshold int) time.Duration {
	return bound(200*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, threshold)
}

// slack is what a busy machine may add to a bound.
const slack = time.Second

// watcher follows the blocking passing query of a service, as a router does.
type watcher struct{ news chan []string }

func (w *world) watchPassing(service string) *watcher {
	v := &watcher{news: make(chan []string, 100)}
	go func() {
		q := (&api.QueryOptions{WaitTime: 10 * time.Second}).WithContext(w.ctx)
		for w.ctx.Err() == nil {
			entries, meta, err := w.catalog.Health().Service(service, "", true, q)
			if err != nil {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			q.WaitIndex = meta.LastIndex
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.Service.ID)
			}
			slices.Sort(ids)
			select {
			case v.news <- ids:
			case <-w.ctx.Done():
			}
		}
	}()
	return v
}

// until waits until the query answers exactly these instances.
func (v *watcher) until(t *testing.T, within time.Duration, want ...string) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var got []string
	for {
		select {
		case got = <-v.news:
			if slices.Equal(got, want) {
				return time.Since(start)
			}
		case <-ctx.Done():
			t.Fatalf("the blocking passing query answered %q last, want %q within %s", got, want, within)
		}
	}
}

// code is what an output says of a status code: nothing, where the Envoy's codes
// cannot be trusted (facts/envoy-hds.md 0.18).
func (w *world) code(code int) string {
	w.t.Helper()
	var major, minor, patch int
	_, err := fmt.Sscanf(w.observer(theNode).Envoy, "%d.%d.%d", &major, &minor, &patch)
	require.NoError(w.t, err)
	if minor < 39 || minor == 39 && patch < 3 {
		return ""
	}
	return fmt.Sprintf(", HTTP %d", code)
}

// act is something that happens to web-1, and what must be seen of it.
type act struct {
	what    string
	do      func()
	passing []string
	// threshold is the one that counts for it.
	threshold int
	output    string
}

// play plays acts with two instances, of which only web-1 is touched, and
// asserts on every view that Consul's users have.
func (w *world) play(one, two *lab.App, acts []act) {
	for _, id := range []string{"hds:web-1", "hds:web-2"} {
		w.eventually(patience, w.has(id, api.HealthPassing))
	}
	v := w.watchPassing("web")
	v.until(w.t, patience, "web-1", "web-2")
	for _, a := range acts {
		start := time.Now()
		a.do()
		within := quickBound(a.threshold) + slack
		v.until(w.t, within, a.passing...)
		w.t.Logf("%s: %s", a.what, time.Since(start).Round(time.Millisecond))
		assert.Less(w.t, time.Since(start), within, a.what)

		status, ports := api.HealthCritical, []int{two.Port()}
		if slices.Contains(a.passing, "web-1") {
			status, ports = api.HealthPassing, []int{one.Port(), two.Port()}
		}
		slices.Sort(ports)
		w.eventually(time.Second, w.has("hds:web-1", status))
		assert.Equal(w.t, a.passing, w.passing("web"), a.what)
		assert.Equal(w.t, ports, w.dns("web"), a.what)
		assert.Equal(w.t, a.output, w.check("hds:web-1").Output, a.what)
		require.NoError(w.t, w.has("hds:web-2", api.HealthPassing)(), a.what)
	}
}

func TestTheStoryByHTTP(t *testing.T) {
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one, two := w.app(), w.app()
	meta := map[string]string{"hds": "http", "hds_path": "/health"}
	w.register("web-1", one.Port(), meta)
	w.register("web-2", two.Port(), meta)
	says := func(what string) string {
		return fmt.Sprintf("http GET http://127.0.0.1:%d/health: %s, says Envoy %s", one.Port(), what, theNode)
	}
	both, rest := []string{"web-1", "web-2"}, []string{"web-2"}
	w.play(one, two, []act{
		{"answers 500", func() { one.SetStatus(500) }, rest, 2, says("unhealthy" + w.code(500))},
		{"recovers", func() { one.SetStatus(204) }, both, 1, says("healthy")},
		{"is killed", one.Close, rest, 2, says("unhealthy")},
		{"is started again", func() { require.NoError(t, one.Open()) }, both, 1, says("healthy")},
		{"hangs", func() { one.SetHang(true) }, rest, 2, says("timeout")},
		{"goes on", func() { one.SetHang(false) }, both, 1, says("healthy")},
		{"redirects", func() { one.SetStatus(301) }, rest, 2, says("unhealthy" + w.code(301))},
		{"recovers", func() { one.SetStatus(200) }, both, 1, says("healthy")},
	})
	c := w.check("hds:web-1")
	assert.Equal(t, "Envoy HDS: http /health", c.Name)
	assert.Equal(t, "ttl", c.Type)
	assert.Regexp(t, "^consul-hds: ", c.Notes)
}

func TestTheStoryByTCP(t *testing.T) {
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	var apps [2]*lab.App
	for i := range apps {
		var err error
		apps[i], err = theLab.StartTCPApp()
		require.NoError(t, err)
		t.Cleanup(apps[i].Close)
		w.register(fmt.Sprint("web-", i+1), apps[i].Port(), map[string]string{"hds": "tcp"})
	}
	one := apps[0]
	says := func(what string) string {
		return fmt.Sprintf("tcp 127.0.0.1:%d: %s, says Envoy %s", one.Port(), what, theNode)
	}
	both, rest := []string{"web-1", "web-2"}, []string{"web-2"}
	w.play(one, apps[1], []act{
		{"is killed", one.Close, rest, 2, says("unhealthy")},
		{"is started again", func() { require.NoError(t, one.Open()) }, both, 1, says("healthy")},
	})
	assert.Equal(t, fmt.Sprint("Envoy HDS: tcp ", one.Port()), w.check("hds:web-1").Name)
}

func TestTooManyRequestsIsAWarning(t *testing.T) {
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(429)
	if w.code(429) == "" { // this Envoy's codes cannot be trusted
		w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
		return
	}
	w.eventually(patience, w.has("hds:web-1", api.HealthWarning))
	assert.Empty(t, w.passing("web"), "a passing query leaves a warning out")
	assert.Equal(t, []int{one.Port()}, w.dns("web"), "DNS does not")
	one.SetStatus(200)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.NotContains(t, w.daemon.Log(), "status=critical output=\"http GET http://127.0.0.1:"+fmt.Sprint(one.Port())+"/: unhealthy")
}

func TestThresholdsAreHonoured(t *testing.T) {
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_unhealthy_threshold": "5", "hds_healthy_threshold": "4"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(500)
	start, hits := time.Now(), one.Hits()
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	assert.GreaterOrEqual(t, one.Hits()-hits, int64(5), "five failures")
	assert.Greater(t, time.Since(start), 700*time.Millisecond)
	one.SetStatus(200)
	hits = one.Hits()
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.GreaterOrEqual(t, one.Hits()-hits, int64(4), "four successes")
}

func TestTheIntervalIsHonoured(t *testing.T) {
	w := newWorld(t, "")
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_interval": "250ms"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	hits := one.Hits()
	time.Sleep(3 * time.Second)
	assert.InDelta(t, 12, one.Hits()-hits, 3, "probes in 3 s, without traffic")
}
