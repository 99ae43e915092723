package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRowsAreChosenByNumber(t *testing.T) {
	all, err := choose(measurements(), "")
	require.NoError(t, err)
	assert.Len(t, all, len(measurements()))
	two, err := choose(measurements(), "7, 1")
	require.NoError(t, err)
	assert.Equal(t, []string{"7", "1"}, []string{two[0].number, two[1].number})
	_, err = choose(measurements(), "11")
	assert.EqualError(t, err, `there is no row "11", only 1 to 10`)
}

func TestNothingIsMeasuredWithoutRuns(t *testing.T) {
	assert.ErrorContains(t, (&bench{samples: 1}).measure(t.Context(), "2"), "at least 1")
	assert.ErrorContains(t, (&bench{runs: 1}).measure(t.Context(), "3"), "at least 1")
}

func TestQuantilesAndRatios(t *testing.T) {
	v := []time.Duration{5, 1, 4, 2, 3}
	assert.EqualValues(t, 3, median(v))
	assert.EqualValues(t, 5, quantile(v, 0.99))
	assert.EqualValues(t, 1, quantile(v, 0))
	assert.Equal(t, []float64{2, 0.5}, ratios([]time.Duration{4, 1}, []time.Duration{2, 2}))
	assert.False(t, memoryRow("", [2][]float64{{14}, {10}}, "", 1.3).met)
	assert.True(t, delayRow("", "", [2][]time.Duration{{13, 20}, {10, 10}}, 0, "", 1.3).met)
	assert.False(t, delayRow("", "", [2][]time.Duration{{13, 20}, {10, 10}}, 0.99, "", 1.3).met)
}

func TestTheWireTellsRefreshesFromTurns(t *testing.T) {
	w := &wire{last: map[string]update{}}
	now := time.Now()
	say := func(status string, after time.Duration) {
		now = now.Add(after)
		w.note("a", []byte(`{"Status":"`+status+`","Output":""}`), now)
	}
	say("passing", 0)
	say("passing", 20*time.Second)
	turns, early := w.taken()
	assert.Zero(t, turns+early)
	say("critical", time.Second)
	say("critical", time.Second)
	turns, early = w.taken()
	assert.Equal(t, []int{1, 1}, []int{turns, early})
}

func TestGrowthIsJudgedByTheCheck(t *testing.T) {
	sizes := []int{0, 10, 100, 1000}
	r := growthRow("CPU", "ms", 1e-3, sizes, []float64{0.005, 0.007, 0.015, 0.105})
	assert.Equal(t, "CPU, 0 / 10 / 100 / 1000 checks", r.measure)
	assert.Equal(t, "5.0 / 7.0 / 15.0 / 105.0 ms", r.ours)
	assert.Equal(t, "200.0 / 100.0 / 100.0 µs a check", r.floor)
	assert.Equal(t, "0.50 / 1.00", r.ratio)
	assert.True(t, r.met)
	assert.False(t, growthRow("CPU", "ms", 1e-3, sizes, []float64{0.005, 0.007, 0.015, 0.125}).met, "1.2 ×")
	assert.True(t, growthRow("CPU", "ms", 1e-3, sizes, []float64{0.005, 0.005, 0.015, 0.105}).met, "what 10 cost is lost in the rest")
}

func TestMetricsOfBenchmarks(t *testing.T) {
	out := "cpu: x\nBenchmarkOneChange/100-2 \t 10\t 208241 ns/op\t 79125.5 cpu-ns/op\t 10 B/op\t 81 allocs/op\nBenchmarkOneChange/100-2 1 2 ns/op 3 cpu-ns/op\nok 1 2 cpu-ns/op\n"
	got, err := metrics(out, "cpu-ns/op")
	require.NoError(t, err)
	assert.Equal(t, []float64{79125.5, 3}, got)
	_, err = metrics("BenchmarkOneChange 1 x cpu-ns/op\n", "cpu-ns/op")
	require.Error(t, err)
	_, err = metrics("PASS\n", "cpu-ns/op")
	require.Error(t, err)
}
