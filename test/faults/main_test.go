package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// theLab holds what the tests start.
var theLab *lab.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.RunTests(m, func(l *lab.Lab) { theLab = l }))
}

// TestFaults runs the short scenarios, and then breaks checks by hand, which the
// oracle has to find.
func TestFaults(t *testing.T) {
	t.Parallel()
	r := &runner{lab: theLab, times: 1}
	t.Cleanup(func() { assert.NoError(t, r.close()) })
	for _, s := range shortOnes(scenarios(1)) {
		t.Run(s.name, func(t *testing.T) { assert.NoError(t, r.one(t.Context(), s)) })
	}
	t.Run("by hand", func(t *testing.T) { byHand(t, r) })
	var table strings.Builder
	require.NoError(t, writeRows(&table, r.results))
	t.Log("what users saw:\n" + table.String())
}

// byHand kills the daemon, and writes statuses that are wrong to the agent.
func byHand(t *testing.T, r *runner) {
	s := scenario{name: "by hand", setting: quick(), run: func(ctx context.Context, u *trial) error {
		require.NoError(t, u.daemon.Kill())
		agent := u.agent.Client().Agent()
		write := func(id, status string) {
			require.NoError(t, agent.UpdateTTLOpts("hds:"+id, "by hand", status, query(ctx)))
		}
		write("web-steady", api.HealthCritical)
		write("web-ill", api.HealthPassing)
		require.NoError(t, lab.Pause(ctx, 300*time.Millisecond))
		require.NoError(t, agent.CheckDeregister("hds:web-ill"))
		require.NoError(t, lab.Pause(ctx, 300*time.Millisecond))
		require.NoError(t, u.daemon.Start())
		return u.daemon.WaitReady(ctx)
	}}
	w, err := r.worldFor(t.Context(), s.setting)
	require.NoError(t, err)
	r.logs = t.TempDir()
	found := r.one(t.Context(), s)
	result := r.results[len(r.results)-1]
	require.NoError(t, result.err)
	for _, part := range []string{w.daemon.Name(), w.agent.Name(), w.ingress.Name()} {
		assert.FileExists(t, filepath.Join(r.logs, s.name, part+".log"))
	}
	for _, says := range []string{
		"web-steady: false critical in catalog", "web-steady: false critical in DNS",
		"web-ill: false passing in catalog", "web-ill: false passing in DNS", "web-ill: missing in catalog",
	} {
		assert.ErrorContains(t, found, says)
	}
	assert.Contains(t, result.row(), fmt.Sprintf("%d VIOLATIONS", len(result.verdict.violations)))
}
