package mesh

import (
	"errors"
	"time"
)

// Traffic are answers in the order in which they came.
type Traffic []Answer

// Through are those through an entry.
func (t Traffic) Through(entry string) Traffic {
	return t.filter(func(a Answer) bool { return a.Entry == entry })
}

// By are those of a backend.
func (t Traffic) By(backend string) Traffic {
	return t.filter(func(a Answer) bool { return a.Err == nil && a.By == backend })
}

// Failed are the requests that failed.
func (t Traffic) Failed() Traffic {
	return t.filter(func(a Answer) bool { return a.Err != nil })
}

func (t Traffic) filter(keep func(Answer) bool) (kept Traffic) {
	for _, a := range t {
		if keep(a) {
			kept = append(kept, a)
		}
	}
	return kept
}

// LastAfter is how long after start the last answer came; 0 if there is none.
func (t Traffic) LastAfter(start time.Time) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].At.Sub(start)
}

// LongestPause is the longest time without an answer, from start until now.
func (t Traffic) LongestPause(start time.Time) (longest time.Duration) {
	for _, a := range t {
		longest = max(longest, a.At.Sub(start))
		start = a.At
	}
	return max(longest, time.Since(start))
}

func (t Traffic) lastError() error {
	if failed := t.Failed(); len(failed) > 0 {
		return failed[len(failed)-1].Err
	}
	return errors.New("none")
}
