package checks

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/health"
)

// anyStatuses are runs of statuses, for a history is filled by hundreds.
func anyStatuses(t *rapid.T) (out []health.Status) {
	for range rapid.IntRange(0, 12).Draw(t, "runs") {
		run := rapid.SliceOfN(rapid.SampledFrom([]health.Status{health.Passing, health.Warning, health.Critical}), 1, 3).Draw(t, "run")
		out = slices.Concat(out, slices.Repeat(run, rapid.SampledFrom([]int{1, 20, 90}).Draw(t, "times")))
	}
	return out
}

// What a history holds after any transitions: never more than its size, all of
// the newest, everything in order; and nothing but failures in its older half once
// it had to drop one, of which those that stay are the newest.
func TestAHistoryKeepsFailuresLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		statuses := anyStatuses(t)
		var h history
		for i, s := range statuses {
			h.add(Transition{CheckID: strconv.Itoa(i), To: s})
		}
		assert.Len(t, h.list, min(len(statuses), historySize))
		kept := make([]int, len(h.list))
		for i, k := range h.list {
			kept[i], _ = strconv.Atoi(k.CheckID)
		}
		assert.True(t, slices.IsSorted(kept))
		for n := max(0, len(statuses)-historyNewest); n < len(statuses); n++ {
			assert.Contains(t, kept, n, "the newest are all there")
		}
		failure := func(n int) bool { return statuses[n] != health.Passing }
		var all, held []int
		for n := range statuses {
			if failure(n) {
				all = append(all, n)
			}
		}
		for _, n := range kept {
			if failure(n) {
				held = append(held, n)
			}
		}
		if len(held) < len(all) {
			older := kept[:len(kept)-historyNewest]
			assert.Equal(t, held[:len(older)], older, "only failures are left to drop")
			assert.Equal(t, all[len(all)-len(held):], held, "the oldest failures went first")
		}
	})
}

func TestAFailureOutlivesAnInstanceThatFlaps(t *testing.T) {
	var h history
	h.add(Transition{CheckID: "failed", To: health.Critical})
	for range historySize / 2 {
		h.add(Transition{CheckID: "flaps", To: health.Passing})
		h.add(Transition{CheckID: "flaps", To: health.Warning})
	}
	assert.Equal(t, "failed", h.list[0].CheckID)
	assert.Len(t, h.list, historySize)
}

func TestAHistoryBoundsOutputs(t *testing.T) {
	var h history
	h.add(Transition{Output: strings.Repeat("é", 4096)})
	h.add(Transition{Output: "x" + strings.Repeat("é", 4096)})
	for _, k := range h.list {
		assert.InDelta(t, historyOutput, len(k.Output), 1)
		assert.LessOrEqual(t, len(k.Output), historyOutput)
		assert.True(t, utf8.ValidString(k.Output))
	}
}
