package agenda

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestAgainstAMap compares an agenda with a map that is searched as a whole.
func TestAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Agenda[int]
		all, now := map[int]time.Time{}, t0
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
				key, at := rapid.IntRange(0, 9).Draw(t, "key"), t0.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "at")))
				if rapid.IntRange(0, 4).Draw(t, "off") == 0 {
					at = time.Time{}
				}
				a.Set(key, at)
				all[key] = at
				maps.DeleteFunc(all, func(_ int, at time.Time) bool { return at.IsZero() })
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "pass")))
			assert.Equal(t, expected(all, now), taken(&a, now))
			assert.Equal(t, len(all), a.Len())
		}
	})
}

// expected takes what is due off a map.
func expected(all map[int]time.Time, now time.Time) (due []int) {
	for key, at := range all {
		if !at.After(now) {
			due = append(due, key)
			delete(all, key)
		}
	}
	slices.Sort(due)
	return due
}

func taken(a *Agenda[int], now time.Time) (due []int) {
	for key, ok := a.Due(now); ok; key, ok = a.Due(now) {
		due = append(due, key)
	}
	slices.Sort(due)
	return due
}

func TestTheEarliestComesFirst(t *testing.T) {
	var a Agenda[string]
	for i, key := range []string{"c", "a", "b"} {
		a.Set(key, t0.Add(time.Duration(i)))
	}
	a.Set("c", t0.Add(time.Hour))
	var order []string
	for key, ok := a.Due(t0.Add(time.Hour)); ok; key, ok = a.Due(t0.Add(time.Hour)) {
		order = append(order, key)
	}
	assert.Equal(t, []string{"a", "b", "c"}, order)
}

// TestNoCostWhileNothingIsDue: to look, and to set what is set, allocates nothing.
func TestNoCostWhileNothingIsDue(t *testing.T) {
	var a Agenda[int]
	for i := range 1000 {
		a.Set(i, t0.Add(time.Hour))
	}
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		_, ok := a.Due(t0)
		assert.False(t, ok)
		a.Set(7, t0.Add(time.Hour))
		a.Set(8, t0.Add(2*time.Hour))
	}))
}
