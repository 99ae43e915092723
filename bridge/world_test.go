package bridge

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRandomWorld drives the whole bridge through what may happen to it, in fake
// time, and compares what Consul shows with the model. The same seed is the same
// run; a run that fails is made as short as can be, and printed as the calls that
// world_regressions_test.go is made of.
func TestRandomWorld(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		s := randomWorld(t, r, dir)
		s.judge(r)
	})
}

// randomWorld has a world live whose things happen as rapid draws them.
func randomWorld(t *testing.T, r *rapid.T, dir string) *scene {
	s, panicked := inBubble(t, dir, drawSettings(r), func(s *scene) {
		s.prelude()
		r.Repeat(actions(s))
	})
	switch {
	case panicked == nil || panicked == errBroken:
	case strings.HasSuffix(fmt.Sprintf("%T", panicked), "invalidData"):
		panic(panicked) // rapid tells failures by their line: this is none
	default:
		panic(panicked)
	}
	return s
}

// errBroken ends a world in which a rule is broken.
var errBroken = errors.New("a rule is broken")

// judge fails a test whose world broke a rule.
func (s *scene) judge(t interface {
	Helper()
	Logf(string, ...any)
	Fatalf(string, ...any)
}) {
	t.Helper()
	if len(s.model.faults) == 0 {
		return
	}
	t.Logf("initial_status %q, on_stale %q, what happened:\n\t%s", s.settings.InitialStatus, s.settings.OnStale, strings.Join(s.did, "\n\t"))
	written := s.agent.written()
	t.Logf("the last writes:\n\t%s", strings.Join(written[max(0, len(written)-20):], "\n\t"))
	t.Fatalf("%s", s.model.faults[0])
}

// inBubble has a world live in a bubble of its own, until it ends or the first
// rule is broken. What the world panics with, by which rapid ends a run, comes out
// of the bubble as a value: it would end the process in there. One goroutine runs at a
// time, as in the daemon: where two of a bubble find at once that a ticker of theirs is
// due, the race detector of Go 1.26 may crash, as they share its context of timers.
func inBubble(t *testing.T, dir string, settings Settings, live func(s *scene)) (s *scene, panicked any) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		var err error
		if s, err = newScene(dir, settings); err != nil {
			t.Fatal(err)
		}
		defer s.close()
		defer func() { panicked = recover() }()
		live(s)
		if !s.broken() {
			s.finish()
		}
	})
	return s, panicked
}

// worldSettings are those of tests, with times that a run sees the end of.
func worldSettings() Settings {
	set := testSettings()
	set.TTL, set.OrphanGrace = 30*time.Second, 30*time.Second
	return set
}

func drawSettings(r *rapid.T) Settings {
	set := worldSettings()
	set.InitialStatus = rapid.SampledFrom([]string{"critical", "none"}).Draw(r, "initial_status")
	set.OnStale = rapid.SampledFrom([]string{"expire", "critical", "keep"}).Draw(r, "on_stale")
	return set
}

// TestTheSameSeedIsTheSameRun: else no failure could be had again.
func TestTheSameSeedIsTheSameRun(t *testing.T) {
	dir := t.TempDir()
	for seed := range 5 {
		run := rapid.Custom(func(r *rapid.T) []string {
			s := randomWorld(t, r, dir)
			s.judge(t)
			return append(s.did, s.agent.written()...)
		})
		first := run.Example(seed)
		require.Equal(t, first, run.Example(seed), fmt.Sprint("seed ", seed))
		t.Log(len(first), "writes and things that happened")
	}
}
