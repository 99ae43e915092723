package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// begun is when the invented records begin.
var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return begun.Add(time.Duration(seconds * float64(time.Second)))
}

// testBounds are round numbers.
var testBounds = bounds{detect: 2 * time.Second, recover: time.Second, stale: 30 * time.Second}

// invented is a record of a minute without a fault: a healthy instance, an
// unhealthy one, and one that is unhealthy from 10 to 20 and seen a second late.
type invented struct {
	*record
	// shows is what a source shows of an instance at a time.
	shows func(s source, instance int, t float64) state
	// answers is who answers a request, -1 is nobody.
	answers func(t float64) int
	// says is the output of all checks.
	says string
}

const (
	steady = iota
	ill
	flips
)

func inventedRecord() *invented {
	r := &invented{record: newRecord(begun, []string{"steady", "ill", "flips"}, []bool{true, false, true})}
	r.turned(flips, at(10), false)
	r.turned(flips, at(20), true)
	r.shows = func(_ source, instance int, t float64) state {
		if instance == ill || instance == flips && t >= 11 && t < 20.5 {
			return critical
		}
		return passing
	}
	r.answers = func(float64) int { return steady }
	return r
}

// but has a source show something else of an instance for a time.
func (r *invented) but(of source, instance int, shown state, from, to float64) {
	shows := r.shows
	r.shows = func(s source, i int, t float64) state {
		if s == of && i == instance && t >= from && t < to {
			return shown
		}
		return shows(s, i, t)
	}
}

// by has requests be answered by another for a time.
func (r *invented) by(instance int, from, to float64) {
	answers := r.answers
	r.answers = func(t float64) int {
		if t >= from && t < to {
			return instance
		}
		return answers(t)
	}
}

// broken adds a fault.
func (r *invented) broken(from, to float64, f fault) {
	f.from, f.to = at(from), at(to)
	r.faults = append(r.faults, &f)
}

// judged takes the samples, and judges them.
func (r *invented) judged() verdict {
	for n := range 600 {
		t := float64(n) / 10
		from, to := at(t), at(t+0.01)
		for _, s := range []source{catalog, dns} {
			l := look{from: from, to: to}
			for i := range r.instances {
				l.states = append(l.states, r.shows(s, i, t))
				l.says = append(l.says, r.says)
			}
			r.looked(s, l)
		}
		q := request{from: from, to: to, by: r.answers(t)}
		if q.by < 0 {
			q.err = errors.New("503")
		}
		r.asked(q)
	}
	return judge(r.record, testBounds)
}

func TestTheOracleFindsEachClass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*invented)
		class  class
		says   string
	}{
		"healthy, shown critical once": {func(r *invented) { r.but(catalog, steady, critical, 30, 30.1) },
			falseCritical, "steady: false critical in catalog for 100ms, which is wrong 30s after the begin"},
		"healthy, shown critical, and why": {func(r *invented) { r.says = "timeout"; r.but(catalog, steady, critical, 30, 31) },
			falseCritical, "steady: false critical in catalog for 1s (timeout), which is wrong 30s after the begin"},
		"healthy, not in DNS": {func(r *invented) { r.but(dns, steady, critical, 30, 32) },
			falseCritical, "steady: false critical in DNS for 2s, which is wrong 30s after the begin"},
		"healthy, not listed": {func(r *invented) { r.but(catalog, steady, absent, 30, 32) },
			falseCritical, "steady: false critical in catalog for 2s, which is wrong 30s after the begin"},
		"unhealthy, shown passing once": {func(r *invented) { r.but(catalog, ill, passing, 30, 30.1) },
			falsePassing, "ill: false passing in catalog for 100ms, which is wrong 30s after the begin"},
		"fails, seen too late": {func(r *invented) { r.but(catalog, flips, passing, 10, 14) },
			falsePassing, "flips: false passing in catalog for 4s, which is wrong 12.1s after the begin"},
		"fails, never seen": {func(r *invented) { r.but(dns, flips, passing, 10, 20) },
			falsePassing, "flips: false passing in DNS for 10s, which is wrong 12.1s after the begin"},
		"fails, passing once more after it was seen": {func(r *invented) { r.but(catalog, flips, passing, 11.5, 11.6) },
			falsePassing, "flips: false passing in catalog for 100ms, which is wrong 11.5s after the begin"},
		"recovers, seen too late": {func(r *invented) { r.but(catalog, flips, critical, 20, 23) },
			falseCritical, "flips: false critical in catalog for 3s, which is wrong 21.1s after the begin"},
		"recovers, critical once more after it was seen": {func(r *invented) { r.but(catalog, flips, critical, 20.7, 20.8) },
			falseCritical, "flips: false critical in catalog for 100ms, which is wrong 20.7s after the begin"},
		"a check is missing": {func(r *invented) { r.but(catalog, ill, bare, 30, 31) },
			missing, "ill: missing in catalog for 1s, which is wrong 30s after the begin"},
		"an unhealthy instance gets requests": {func(r *invented) { r.by(ill, 30, 30.1) },
			badTraffic, "ill: bad traffic in traffic for 30s, which is wrong 30s after the begin"},
		"an instance that failed gets requests for too long": {func(r *invented) { r.by(flips, 10, 15) },
			badTraffic, "flips: bad traffic in traffic for 4.9s, which is wrong 13.1s after the begin"},
		"requests fail": {func(r *invented) { r.by(-1, 30, 30.5) },
			failedTraffic, "the ingress: failed in traffic for 400ms (503), which is wrong 30s after the begin"},
	} {
		t.Run(name, func(t *testing.T) {
			r := inventedRecord()
			c.change(r)
			v := r.judged()
			assert.Equal(t, []string{c.says}, v.violations)
			assert.Positive(t, v.longest[c.class])
		})
	}
}

func TestTheOracleAllowsWhatTheRulesAllow(t *testing.T) {
	for name, change := range map[string]func(*invented){
		"nothing": func(*invented) {},
		"a turn is seen in time": func(r *invented) {
			r.but(catalog, flips, passing, 10, 12)
			r.but(dns, flips, critical, 20, 21)
			r.by(flips, 10, 12.9)
		},
		"a turn during a fault is seen after it": func(r *invented) {
			r.broken(9, 14, fault{after: time.Second})
			r.but(catalog, flips, passing, 10, 16.9)
		},
		"a fault just after a turn": func(r *invented) {
			r.broken(11, 14, fault{after: time.Second})
			r.but(catalog, flips, passing, 10, 16.9)
		},
		"two faults leave too little time between them": func(r *invented) {
			r.broken(9, 12, fault{})
			r.broken(13, 14, fault{})
			r.but(catalog, flips, passing, 10, 15.9)
		},
		"a fault that comes later": func(r *invented) {
			r.broken(9, 14, fault{after: time.Second})
			r.broken(55, 59, fault{downtime: true})
			r.but(catalog, flips, passing, 10, 16.9)
		},
		"what was there comes back once more while something is broken": func(r *invented) {
			r.broken(9, 14, fault{after: time.Second})
			r.but(catalog, flips, critical, 10, 12)
			r.but(catalog, flips, passing, 12, 16.9)
		},
		"the ingress hears later": func(r *invented) {
			r.broken(9, 12, fault{after: time.Second, deaf: 3 * time.Second})
			r.by(flips, 10, 18.9)
		},
		"checks expire when nothing is refreshed": func(r *invented) {
			r.broken(30, 50, fault{expires: 10 * time.Second, after: 2 * time.Second})
			r.but(catalog, steady, critical, 40.1, 51.9)
			r.but(dns, steady, critical, 40.1, 51.9)
		},
		"Consul takes the node for dead": func(r *invented) {
			r.broken(30, 40, fault{consul: true, after: time.Second})
			r.but(catalog, steady, absent, 31, 40.9)
			r.but(dns, steady, critical, 31, 40.9)
			r.but(dns, ill, passing, 31, 32)
		},
		"a check is lost for a while": func(r *invented) {
			r.broken(30, 40, fault{lost: 2 * time.Second})
			r.but(catalog, steady, bare, 31, 32.9)
		},
		"an unhealthy instance has lost its check": func(r *invented) {
			r.broken(30, 40, fault{lost: 2 * time.Second})
			r.but(catalog, ill, bare, 31, 32.9)
			r.but(dns, ill, passing, 31, 32.9)
			r.by(ill, 31, 39)
		},
		"the agent's downtime begins after a turn": func(r *invented) {
			r.broken(55, 56, fault{downtime: true})
			r.but(catalog, flips, passing, 10, 11.5)
		},
		"the catalog goes back": func(r *invented) {
			r.broken(30, 32, fault{older: time.Second, after: 3 * time.Second})
			r.but(catalog, ill, passing, 30, 32.9)
			r.by(ill, 30, 32.9)
		},
		"a turn during a fault that slows": func(r *invented) {
			r.broken(9, 40, fault{slows: time.Second})
			r.but(catalog, flips, passing, 10, 12.9)
		},
		"an instance that the fault is of expires": func(r *invented) {
			r.broken(30, 50, fault{of: "steady", expires: 10 * time.Second})
			r.but(catalog, steady, critical, 40.1, 50)
		},
		"requests fail without the sidecar": func(r *invented) {
			r.broken(30, 40, fault{fails: true})
			r.by(-1, 30.1, 39.9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := inventedRecord()
			change(r)
			assert.Empty(t, r.judged().violations)
		})
	}
}

func TestAFaultAllowsNoMoreThanItSays(t *testing.T) {
	for name, change := range map[string]func(*invented){
		"a turn during a fault is seen too late after it": func(r *invented) {
			r.broken(9, 12, fault{after: time.Second})
			r.but(catalog, flips, passing, 10, 15.3)
		},
		"what was there comes back in a fault after it was seen": func(r *invented) {
			r.broken(12, 14, fault{})
			r.but(catalog, flips, passing, 13, 13.5)
		},
		"the catalog does not hear later": func(r *invented) {
			r.broken(9, 12, fault{after: time.Second, deaf: 3 * time.Second})
			r.but(catalog, flips, passing, 10, 15.3)
		},
		"a fault long after a turn": func(r *invented) {
			r.broken(12.5, 14, fault{})
			r.but(catalog, flips, passing, 10, 13)
		},
		"a healthy instance is critical though nothing can have expired": func(r *invented) {
			r.broken(30, 50, fault{expires: 10 * time.Second})
			r.but(catalog, steady, critical, 38, 39)
		},
		"it expires in a fault that was too short for it": func(r *invented) {
			r.broken(30, 35, fault{expires: 10 * time.Second, after: 10 * time.Second})
			r.but(catalog, steady, critical, 41, 42)
		},
		"a check is critical while Consul may hide instances": func(r *invented) {
			r.broken(30, 40, fault{consul: true})
			r.but(catalog, steady, critical, 31, 32)
		},
		"an unhealthy instance is passing again once Consul hides none": func(r *invented) {
			r.broken(9, 14, fault{consul: true})
			r.but(catalog, flips, absent, 10, 14)
			r.but(catalog, flips, passing, 14, 17)
		},
		"a check is lost for too long": func(r *invented) {
			r.broken(30, 40, fault{lost: 2 * time.Second})
			r.but(catalog, steady, bare, 31, 33.5)
		},
		"requests fail that the fault does not concern": func(r *invented) {
			r.broken(30, 35, fault{})
			r.by(-1, 31, 31.2)
		},
		"an unhealthy instance is in DNS for longer than its check is lost": func(r *invented) {
			r.broken(30, 40, fault{lost: 2 * time.Second})
			r.but(dns, ill, passing, 31, 33.5)
		},
		"an unhealthy instance is passing while checks may be lost": func(r *invented) {
			r.broken(30, 40, fault{lost: 2 * time.Second})
			r.but(catalog, ill, passing, 31, 31.5)
		},
		"the catalog stays behind": func(r *invented) {
			r.broken(30, 32, fault{older: time.Second, after: 3 * time.Second})
			r.but(catalog, ill, passing, 30, 33.5)
		},
		"a turn during a fault that slows is seen too late": func(r *invented) {
			r.broken(9, 40, fault{slows: time.Second})
			r.but(catalog, flips, passing, 10, 13.5)
		},
		"a turn after a fault that slows is seen too late": func(r *invented) {
			r.broken(5, 9, fault{slows: time.Second})
			r.but(catalog, flips, passing, 10, 12.5)
		},
		"another instance than the fault is of is critical": func(r *invented) {
			r.broken(30, 50, fault{of: "flips", expires: time.Second})
			r.but(catalog, steady, critical, 38, 39)
		},
		"another instance than the fault is of gets requests": func(r *invented) {
			r.broken(30, 40, fault{of: "flips", lost: 10 * time.Second})
			r.by(ill, 31, 39)
		},
		"requests fail after the fault": func(r *invented) {
			r.broken(30, 35, fault{fails: true})
			r.by(-1, 35.5, 35.7)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := inventedRecord()
			change(r)
			assert.Len(t, r.judged().violations, 1)
		})
	}
}

// Rule 3 holds also while something is broken for ever.
func TestAStaleTruthEndsWhateverIsBroken(t *testing.T) {
	never := func(f fault, from float64) verdict {
		r := &invented{record: newRecord(begun, []string{"dies"}, []bool{true})}
		r.turned(0, at(10), false)
		r.shows = func(source, int, float64) state { return passing }
		r.answers = func(float64) int { return 0 }
		f.from = at(from)
		r.faults = append(r.faults, &f)
		return r.judged()
	}
	assert.Equal(t, "dies: false passing in catalog for 49.9s, which is wrong 40.1s after the begin, 31.1s after it broke",
		never(fault{what: "it broke"}, 9).violations[0])
	assert.Empty(t, never(fault{downtime: true}, 9).violations, "the agent's downtime adds to it")
	assert.Contains(t, never(fault{starts: true, to: at(15), after: time.Hour}, 9).violations[0], "which is wrong 45.1s",
		"it counts from the daemon's start")
}

func TestNothingSeenIsNoComfort(t *testing.T) {
	v := judge(newRecord(begun, []string{"a"}, []bool{true}), testBounds)
	assert.Equal(t, []string{"catalog was never seen", "DNS was never seen", "no request was sent"}, v.violations)
}

// A sample that was asked for before a turn and answered after it proves nothing.
func TestASampleAcrossATurnIsNotJudged(t *testing.T) {
	r := inventedRecord()
	r.looked(catalog, look{at(9.9), at(10.5), []state{passing, critical, critical}, nil})
	assert.Empty(t, r.judged().violations)
}
