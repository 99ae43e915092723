package main

import (
	"slices"
	"sync"
	"time"
)

// state is what one source shows of an instance.
type state int

const (
	// absent: it is not listed. Users send it nothing.
	absent state = iota
	// bare: it is listed without the check of ours, and so counts as healthy.
	bare
	// critical: any status that is not passing. DNS, which tells no statuses, does
	// not list such an instance.
	critical
	passing
)

// source is where users look.
type source string

const (
	catalog source = "catalog"
	dns     source = "DNS"
	traffic source = "traffic"
)

// look is one sample of the catalog or of DNS.
type look struct {
	// from and to are when it was asked for and when it was answered.
	from, to time.Time
	// states are in the order of the instances.
	states []state
	// says is the output of each instance's check, as far as it is known.
	says []string
}

// said is the output of an instance's check.
func (l look) said(instance int) string {
	if l.says == nil {
		return ""
	}
	return l.says[instance]
}

// request is one sample of the traffic through the ingress.
type request struct {
	from, to time.Time
	// by is the number of the instance that answered.
	by int
	// err is why nobody did.
	err error
}

// turn is a change of an app: from at on it is healthy, or is not.
type turn struct {
	at      time.Time
	healthy bool
}

// fault is something broken on purpose, with what may be seen of it. A zero value
// allows nothing but that turns of apps are seen late.
type fault struct {
	what string
	// of is the one instance that it concerns; empty is all.
	of string
	// from and to are its begin and its end; to is zero while it lasts.
	from, to time.Time
	// after is how long after its end all is as if nothing had been.
	after time.Duration
	// deaf is how much longer the ingress may be without news.
	deaf time.Duration
	// slows is how much longer it may take while it lasts until a turn is seen; 0 is
	// until its end.
	slows time.Duration
	// expires is how long after its begin checks of healthy instances may expire,
	// since no refresh gets through; 0 is never.
	expires time.Duration
	// consul is true if Consul itself may leave out instances, or tell DNS what is
	// old, since its agent or its server is away.
	consul bool
	// older is for how long after its end the catalog may show again what it showed
	// before; 0 is never.
	older time.Duration
	// downtime is true if the agent is away, by which rule 3 is longer.
	downtime bool
	// starts is true if the daemon starts anew at its end, from which rule 3 counts.
	starts bool
	// lost is for how long a check may be missing at a time, and the instance be taken
	// for healthy; 0 is never.
	lost time.Duration
	// fails is true if requests may fail, since a sidecar in their way is away.
	fails bool
}

// concerns says whether it may have to do with how an instance is shown.
func (f *fault) concerns(instance string) bool { return f.of == "" || f.of == instance }

// end is when all is as if nothing had been.
func (f *fault) end() time.Time {
	if f.to.IsZero() {
		return f.from.Add(time.Hour)
	}
	return f.to.Add(f.after)
}

// heard is when the ingress, too, is as if nothing had been.
func (f *fault) heard() time.Time { return f.end().Add(f.deaf) }

// during says whether a time is within the fault or its aftermath.
func (f *fault) during(at time.Time) bool { return !at.Before(f.from) && !at.After(f.end()) }

// goesBack says whether the catalog may show at a time what it showed before.
func (f *fault) goesBack(at time.Time) bool {
	return f.older > 0 && f.during(at) && !at.After(f.to.Add(f.older))
}

// record is what was done in a scenario, and what was seen. It is safe for
// concurrent use until it is judged.
type record struct {
	instances []string
	start     time.Time

	mu       sync.Mutex
	turns    [][]turn // by instance; the first is at the start
	faults   []*fault
	looks    map[source][]look
	requests []request
	away     map[source]int
}

// newRecord begins a record, of instances that are as they are shown.
func newRecord(start time.Time, instances []string, healthy []bool) *record {
	r := &record{instances: instances, start: start, looks: map[source][]look{}, away: map[source]int{}}
	for _, h := range healthy {
		r.turns = append(r.turns, []turn{{start, h}})
	}
	return r
}

func (r *record) turned(instance int, at time.Time, healthy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns[instance] = append(r.turns[instance], turn{at, healthy})
}

// begin notes the begin of a fault, now.
func (r *record) begin(f fault) *fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.from = time.Now()
	r.faults = append(r.faults, &f)
	return &f
}

// ended notes the end of a fault, now.
func (r *record) ended(f *fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.to = time.Now()
}

func (r *record) looked(s source, l look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks[s] = append(r.looks[s], l)
}

func (r *record) asked(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
}

// wasAway notes a sample that could not be taken.
func (r *record) wasAway(s source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away[s]++
}

// at is how an instance was at a time, and since when.
func (r *record) at(instance int, at time.Time) turn {
	turns := r.turns[instance]
	i, _ := slices.BinarySearchFunc(turns, at, func(t turn, at time.Time) int {
		if t.at.After(at) {
			return 1
		}
		return -1
	})
	return turns[max(0, i-1)]
}

// samples is how many were taken.
func (r *record) samples() int {
	return len(r.looks[catalog]) + len(r.looks[dns]) + len(r.requests)
}

// notTaken is how many could not be.
func (r *record) notTaken() int {
	return r.away[catalog] + r.away[dns] + r.away[traffic]
}
