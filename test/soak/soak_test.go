package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// A soak as short as this says nothing of growth, but that the tool works: all
// that it does is done, and no steady instance is shown wrong.
func TestAShortSoak(t *testing.T) {
	t.Parallel()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	var progress bytes.Buffer
	r, err := options{during: 20 * time.Second, seed: 1, progress: &progress, out: io.Discard}.soak(ctx)
	require.NoError(t, err, &progress)
	t.Log(progress.String())
	require.NoError(t, r.seen.fault())
	assert.Greater(t, r.seen.looks, 20)

	rare := []string{"reload", "new token", "Envoy restarted", "agent restarted", "measurement"}
	assert.Subset(t, slices.Collect(maps.Keys(r.actions)), append(rare, "health turned", "instance gone or back"))
	require.GreaterOrEqual(t, len(r.samples), 3)
	for _, s := range r.samples {
		assert.EqualValues(t, steadyInstances+churnedInstances+2, s.entries, "at rest there is nothing but checks and two Envoys")
		for _, q := range quantities() {
			assert.Positive(t, q.of(s), q.name)
		}
	}
	assert.Positive(t, r.daemon)
	assert.Greater(t, r.all, r.daemon)
}

func TestAnInterruptedSoakEndsWithAFaultAndKeepsItsFile(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "soak.txt")
	started := &trigger{on: "resident size", do: cancel}
	err := options{during: time.Minute, seed: 1, progress: started, out: io.Discard}.runWith(ctx, file)
	assert.EqualError(t, err, "interrupted")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "resident size")
	assert.Contains(t, string(text), "1 measurements")
	for _, profile := range []string{".start.pb.gz", ".end.pb.gz"} {
		gzip, err := os.ReadFile(file + profile)
		require.NoError(t, err)
		assert.True(t, bytes.HasPrefix(gzip, []byte{0x1f, 0x8b}), profile)
	}
}

// trigger is a writer that does something once a text is written to it.
type trigger struct {
	on string
	do func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.on)) {
		w.do()
	}
	return len(p), nil
}
