package main

import (
	"fmt"
	"slices"
	"time"
)

// class is a way to be wrong.
type class string

const (
	right class = ""
	// falseCritical is a healthy instance that users are told not to use: rule 2.
	falseCritical class = "false critical"
	// falsePassing is an unhealthy instance that users are told to use: rule 3.
	falsePassing class = "false passing"
	// missing is an instance without its check, which counts as healthy.
	missing class = "missing"
	// badTraffic is a request that an unhealthy instance got.
	badTraffic class = "bad traffic"
	// failedTraffic is a request that failed.
	failedTraffic class = "failed"
)

// classes are all, in the order of the rows.
func classes() []class {
	return []class{falseCritical, falsePassing, missing, badTraffic, failedTraffic}
}

// spell is a time for which one source was wrong in one way.
type spell struct {
	class    class
	source   source
	instance string
	// from is the first wrong sample, and to the first right one, or else the last
	// of all.
	from, to time.Time
	// says is the output of the check at the begin.
	says string
	// broken is the first sample of it that no rule allows; else it is zero.
	broken time.Time
}

func (s spell) lasted() time.Duration { return s.to.Sub(s.from) }

func (s spell) String() string {
	text := fmt.Sprintf("%s: %s in %s for %s", s.instance, s.class, s.source, s.lasted().Round(time.Millisecond))
	if s.says != "" {
		text += fmt.Sprintf(" (%s)", s.says)
	}
	return text
}

// verdict is what a record comes to.
type verdict struct {
	spells  []spell
	longest map[class]time.Duration
	allowed map[class]time.Duration
	// requests of the bad traffic and failed ones, beside their spells.
	bad, failed int
	violations  []string
}

// judge reads a record that is complete.
func judge(r *record, b bounds) verdict {
	j := &judging{record: r, bounds: b, verdict: verdict{longest: map[class]time.Duration{}, allowed: map[class]time.Duration{}}}
	for _, s := range []source{catalog, dns} {
		for i := range r.instances {
			j.looksAt(s, i)
		}
		if len(r.looks[s]) == 0 {
			j.violations = append(j.violations, fmt.Sprintf("%s was never seen", s))
		}
	}
	j.allTraffic()
	if len(r.requests) == 0 {
		j.violations = append(j.violations, "no request was sent")
	}
	j.allowances()
	for _, s := range j.spells {
		j.longest[s.class] = max(j.longest[s.class], s.lasted())
		if !s.broken.IsZero() {
			j.violations = append(j.violations, fmt.Sprintf("%s, which is wrong %s after the begin%s",
				s, s.broken.Sub(r.start).Round(time.Millisecond), j.broken(s.broken)))
		}
	}
	return j.verdict
}

// broken tells what was broken at a time.
func (j *judging) broken(at time.Time) (text string) {
	for _, f := range j.record.faults {
		if f.during(at) {
			text += fmt.Sprintf(", %s after %s", at.Sub(f.from).Round(time.Millisecond), f.what)
		}
	}
	return text
}

type judging struct {
	*record
	bounds
	verdict
	// faults are those that count now: of the record's, those that concern the
	// instance that is looked at.
	faults []*fault
}

// about has those faults count that concern an instance.
func (j *judging) about(instance int) {
	j.faults = slices.DeleteFunc(slices.Clone(j.record.faults), func(f *fault) bool { return !f.concerns(j.instances[instance]) })
}

// looksAt judges what a source has shown of an instance.
func (j *judging) looksAt(s source, instance int) {
	j.about(instance)
	now := following{verdict: &j.verdict, source: s, instance: j.instances[instance]}
	is, settled := j.turns[instance][0], true // the world was well at the begin
	for _, l := range j.looks[s] {
		before := is
		if is = j.at(instance, l.from); is != j.at(instance, l.to) {
			continue // it may have seen either
		}
		if is != before {
			settled = false
			now.ends(l.from)
		}
		c := wrong(is.healthy, l.states[instance], s)
		settled = settled || c == right && !j.any(l.from, func(*fault) bool { return true })
		now.sees(c, l.from, l.said(instance))
		if c != right && !j.allows(c, sample{s, l.states[instance], is, settled, now.open.from, l.from}) {
			now.breaks(l.from)
		}
	}
	now.ends(now.last)
}

// following follows the spells of one instance in one source.
type following struct {
	verdict  *verdict
	source   source
	instance string
	open     spell
	last     time.Time
}

// sees goes on with a spell, begins one or ends one.
func (f *following) sees(c class, at time.Time, says string) {
	f.last = at
	if c == f.open.class {
		return
	}
	f.ends(at)
	f.open = spell{class: c, source: f.source, instance: f.instance, from: at, says: says}
}

func (f *following) breaks(at time.Time) {
	if f.open.broken.IsZero() {
		f.open.broken = at
	}
}

func (f *following) ends(at time.Time) {
	if f.open.class != right {
		f.open.to = at
		f.verdict.spells = append(f.verdict.spells, f.open)
	}
	f.open = spell{}
}

// wrong is the way in which a state is wrong.
func wrong(healthy bool, s state, of source) class {
	switch {
	case s == bare && of == catalog:
		return missing
	case healthy && s != passing:
		return falseCritical
	case !healthy && s == passing:
		return falsePassing
	}
	return right
}

// sample is what one look has shown of one instance.
type sample struct {
	source source
	state  state
	// is how the instance was.
	is turn
	// settled is true if the source has shown the instance as it is since it turned,
	// while nothing was broken: else it may have been by chance, as by the end of the
	// TTL, and what was there before may come back once more.
	settled bool
	// begun is when the source began to be wrong in this way.
	begun, at time.Time
}

// allows says whether a rule allows a sample that is wrong in a way.
func (j *judging) allows(c class, s sample) bool {
	if j.hidden(s.source, s.state, s.at) {
		return true
	}
	switch c {
	case missing:
		return j.any(s.at, func(f *fault) bool { return s.at.Sub(s.begun) <= f.lost })
	case falseCritical:
		return !s.settled && !s.at.After(j.due(s.is.at, j.recover, (*fault).end)) || j.any(s.at, func(f *fault) bool { return f.expired(s.at) })
	default:
		if j.any(s.at, func(f *fault) bool { return f.goesBack(s.at) }) {
			return true
		}
		if s.source == dns && j.any(s.at, func(f *fault) bool { return s.at.Sub(s.begun) <= f.lost }) {
			return true // without its check, DNS tells of any instance
		}
		return !s.settled && !s.at.After(j.due(s.is.at, j.detect, (*fault).end)) && !s.at.After(j.staleDue(s.is.at, s.at))
	}
}

// hidden says whether Consul itself may have hidden how an instance is.
func (j *judging) hidden(in source, s state, at time.Time) bool {
	return (in == dns || s == absent) && j.any(at, func(f *fault) bool { return f.consul })
}

// expired says whether the fault lasts for so long that checks may have expired by
// then.
func (f *fault) expired(at time.Time) bool {
	expiry := f.from.Add(f.expires)
	return f.expires > 0 && !at.Before(expiry) && (f.to.IsZero() || f.to.After(expiry))
}

// any says whether some fault that is going on allows it.
func (j *judging) any(at time.Time, allows func(*fault) bool) bool {
	return slices.ContainsFunc(j.faults, func(f *fault) bool { return f.during(at) && allows(f) })
}

// due is when a turn has to be seen at the latest: at the end of the first time
// without a fault that is long enough. A fault is over at its end, or when it is heard.
func (j *judging) due(since time.Time, need time.Duration, end func(*fault) time.Time) time.Time {
	faults := slices.SortedFunc(slices.Values(j.faults), func(a, b *fault) int { return a.from.Compare(b.from) })
	for _, f := range faults {
		if f.from.Sub(since) >= need {
			break
		}
		switch {
		case !end(f).After(since):
		case f.slows > 0:
			need += f.slows
		default:
			since = end(f)
		}
	}
	return since.Add(need)
}

// staleDue is the bound of rule 3 for an instance that has been unhealthy since
// then.
func (j *judging) staleDue(since, at time.Time) time.Time {
	due := since
	var down time.Duration
	for _, f := range j.faults {
		if f.starts && !f.to.IsZero() && f.to.Before(at) {
			due = later(due, f.to)
		}
		if f.downtime {
			down += max(0, earlier(at, f.end()).Sub(later(since, f.from)))
		}
	}
	return due.Add(j.stale + down)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// allowances are the longest spells that the rules allow in what has happened.
func (j *judging) allowances() {
	raise := func(c class, to time.Duration) { j.allowed[c] = max(j.allowed[c], to) }
	for i, turns := range j.turns {
		j.about(i)
		for _, t := range turns[1:] {
			if t.healthy {
				raise(falseCritical, j.due(t.at, j.recover, (*fault).end).Sub(t.at))
				continue
			}
			due := j.due(t.at, j.detect, (*fault).end)
			raise(falsePassing, min(due.Sub(t.at), j.staleDue(t.at, due).Sub(t.at)))
			raise(badTraffic, j.due(t.at, j.detect+propagation, (*fault).heard).Sub(t.at))
		}
	}
	for _, f := range j.record.faults {
		raise(missing, f.lost)
		if f.lost > 0 || f.older > 0 {
			raise(badTraffic, f.end().Sub(f.from))
		}
		if f.lost > 0 {
			raise(falsePassing, f.lost)
		}
		if f.older > 0 {
			raise(falsePassing, f.to.Add(f.older).Sub(f.from))
		}
		if f.fails {
			raise(failedTraffic, f.end().Sub(f.from))
		}
		if f.expires > 0 && f.to.Sub(f.from) > f.expires {
			raise(falseCritical, f.end().Sub(f.from.Add(f.expires)))
		}
	}
}
