package checks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// logging runs a test with a manager that logs from INFO on, without times.
func logging(t *testing.T, agent *fakeAgent, test func(m *checks.Manager, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, err := checks.New(checks.Config{
			Agent: agent, TTL: ttl, OrphanGrace: ttl, Metrics: &noMetrics{}, ReadAgain: func() {},
			Logger: hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true}),
		})
		assert.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		test(m, &log)
		cancel()
		assert.NoError(t, <-done)
	})
}

// step lets a manager do what there is to do.
func step(m *checks.Manager, agent *fakeAgent) {
	time.Sleep(time.Second)
	synctest.Wait()
	m.Sync(agent.snapshot())
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestATransitionIsALineToGrep(t *testing.T) {
	agent := newFakeAgent("a")
	logging(t, agent, func(m *checks.Manager, log *bytes.Buffer) {
		w := wanted("a", health.Passing)
		w.Service, w.Phase, w.Observer = "web", "reported", "node-1"
		m.Set(w)
		step(m, agent)
		w.Status, w.Output = health.Critical, "it is down"
		m.Set(w)
		step(m, agent)
		const who = "check_id=hds:a service=web service_id=a "
		assert.Equal(t, []string{
			"[INFO]  check changed: " + who + "from=none to=passing output=out phase=reported node_id=node-1",
			"[INFO]  check changed: " + who + "from=passing to=critical output=\"it is down\" phase=reported node_id=node-1",
		}, strings.Split(strings.TrimSpace(log.String()), "\n"))
		log.Reset()
		w.Status = health.Passing
		m.Set(w)
		step(m, agent)
		w.Alive, w.Phase = false, "stale"
		m.Set(w)
		time.Sleep(2 * ttl)
		step(m, agent)
		assert.Equal(t, 1, strings.Count(log.String(), who+"from=passing to=critical output=\"TTL expired"), log.String())
		assert.Contains(t, log.String(), "phase=stale")
	})
}

func TestAFaultOfManyChecksIsOneLineAMinute(t *testing.T) {
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = fmt.Sprint("a", i)
	}
	agent := newFakeAgent(ids...)
	agent.fail = func(string, string) error { return errors.New("500") }
	logging(t, agent, func(m *checks.Manager, log *bytes.Buffer) {
		for _, id := range ids {
			m.Set(wanted(id, health.Passing))
		}
		m.Sync(agent.snapshot())
		time.Sleep(150 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		assert.Len(t, lines, 3)
		assert.NotContains(t, lines[0], "count=")
		assert.Regexp(t, `^\[WARN\]  writing a check failed, trying again: check_id=hds:a\d+ service_id=a\d+ op=register error=500 count=\d+$`, lines[1])
	})
}

// At a start a probe may wait for what is not known yet.
func TestAnOrphanOfAMomentIsNoNews(t *testing.T) {
	agent := newFakeAgent("a", "b")
	for _, id := range []string{"a", "b"} {
		agent.put(ownCheck(id, "passing"))
	}
	logging(t, agent, func(m *checks.Manager, log *bytes.Buffer) {
		m.Sync(agent.snapshot())
		time.Sleep(time.Second)
		m.Set(wanted("a", health.Passing))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, "[INFO]  check of ours that no probe explains, keeping it for a while: check_id=hds:b service_id=b grace=1m0s\n", log.String())
	})
}
