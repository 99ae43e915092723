package main

import (
	"slices"
	"time"
)

// calm is the time without a failure that ends a spell of failing requests, which
// others that are answered well may interrupt.
const calm = time.Second

// allTraffic judges the requests.
func (j *judging) allTraffic() {
	slices.SortFunc(j.requests, func(a, b request) int { return a.from.Compare(b.from) })
	failed := following{verdict: &j.verdict, source: traffic}
	bad := failed
	for _, q := range j.requests {
		if q.err != nil {
			j.failedRequest(&failed, q)
			continue
		}
		if q.from.Sub(failed.last) > calm {
			failed.ends(failed.last)
		}
		is := j.at(q.by, q.from)
		if !is.healthy && is == j.at(q.by, q.to) {
			j.badRequest(&bad, q, is)
		}
	}
	failed.ends(failed.last)
	bad.ends(bad.last)
}

func (j *judging) failedRequest(f *following, q request) {
	j.failed++
	f.instance = "the ingress"
	f.sees(failedTraffic, q.from, q.err.Error())
	j.faults = j.record.faults
	if !j.any(q.from, func(f *fault) bool { return f.fails }) {
		f.breaks(q.from)
	}
}

// badRequest goes on with a spell that began when the instance turned.
func (j *judging) badRequest(f *following, q request, is turn) {
	j.bad++
	j.about(q.by)
	if f.open.from != is.at {
		f.ends(f.last)
	}
	f.instance = j.instances[q.by]
	f.sees(badTraffic, is.at, "")
	f.last = q.from
	if q.from.After(j.due(is.at, j.detect+propagation, (*fault).heard)) && !j.any(q.from, func(f *fault) bool { return f.lost > 0 || f.older > 0 }) {
		f.breaks(q.from)
	}
}
