package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

func TestMeasurementsAreChosenByName(t *testing.T) {
	all, err := choose(measurements(), "")
	require.NoError(t, err)
	assert.Len(t, all, len(measurements()))
	two, err := choose(measurements(), "cpu,lost")
	require.NoError(t, err)
	assert.Equal(t, []string{"cpu", "lost"}, names(two))
	_, err = choose(measurements(), "lots")
	assert.EqualError(t, err, `there is no measurement "lots", only delays, mesh, lost, restarts, writes, cpu, servers`)
}

// The numbers are those of docs/how-it-works.md.
func TestTheBoundsAreThoseOfTheDocs(t *testing.T) {
	quick, recovered := failure{}.bounds()
	assert.Equal(t, "2.8s 1.75s", quick.String()+" "+recovered.String())
	hanging, _ := failure{hangs: true}.bounds()
	assert.Equal(t, 4800*time.Millisecond, hanging)
	content, _ := failure{content: true}.bounds()
	assert.Equal(t, 3800*time.Millisecond, content)
	assert.Equal(t, 2*time.Second, restoration())
	assert.Equal(t, 20*time.Second, refreshPeriod())
}

func TestABrokenBoundIsAFault(t *testing.T) {
	assert.NoError(t, within("it", time.Second, time.Second))
	assert.EqualError(t, within("it", 2*time.Second, time.Second), "it: 2s, but the bound is 1s")

	steady := written{updates: 1190, expected: 1200, checks: 200}
	assert.NoError(t, steady.fault())
	for _, breaks := range []func(*written){
		func(w *written) { w.updates = 1401 },
		func(w *written) { w.updates = 999 },
		func(w *written) { w.others = 1 },
		func(w *written) { w.moved = 1 },
	} {
		w := steady
		breaks(&w)
		assert.Error(t, w.fault(), "%+v", w)
	}

	assert.NoError(t, flips{requests: 1}.fault("it"))
	assert.Error(t, flips{requests: 1, failed: 1}.fault("it"))
	assert.Error(t, flips{requests: 1, late: 1}.fault("it"))

	assert.NoError(t, unchanged(lab.Samples{Count: 1}))
	assert.Error(t, unchanged(lab.Samples{}), "nothing was seen")
	assert.Error(t, unchanged(lab.Samples{Count: 1, Wrong: []lab.WrongStatus{{CheckID: "hds:web-1"}}}))
}

func TestATableIsAligned(t *testing.T) {
	tab := table{columns: []string{"what", "took"}}
	tab.row("a", time.Second)
	tab.row("longer", 10*time.Millisecond)
	var out strings.Builder
	require.NoError(t, tab.write(&out))
	assert.Equal(t, "    what  took\n       a    1s\n  longer  10ms\n", out.String())
}

func TestMedianAndLongest(t *testing.T) {
	d := []time.Duration{3 * time.Second, time.Second, 2*time.Second + time.Microsecond}
	assert.Equal(t, 2*time.Second, median(d))
	assert.Equal(t, 3*time.Second, longest(d))
	assert.Equal(t, 3*time.Second, d[0], "the order is kept")
}
