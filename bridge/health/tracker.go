package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxOutput bounds an output in bytes. The agent cuts far longer ones, but in
// the middle of a rune (facts/consul.md 1.2).
const maxOutput = 1024

// Tracker holds one probe's verdict through the time. It is not safe for
// concurrent use.
type Tracker struct {
	def    Definition
	policy Policy
	// base is when the clock of the adoption deadline started.
	base time.Time

	status Status
	output string
	since  time.Time
	// observer is whose answer output tells of.
	observer string

	// last is when the last answer that counted came, zero before the first.
	last time.Time
	// adopted says that the check was found, not made.
	adopted bool
	// awaited is since when an answer is awaited anew: of a new stream, or to a new
	// definition; zero if none is. anew says that the next look begins that.
	awaited time.Time
	anew    bool
	// silent says that no observer has a fresh word.
	silent bool
	// stale says that no answer has come for too long, staleSince since when.
	stale      bool
	staleSince time.Time
	// streams are those that observed the probe at the last look.
	streams []uint64
	// held is since when an endpoint has been seen unhealthy with an expected code,
	// while that does not change the status.
	held time.Time
}

// NewTracker starts to track a probe without a check. base is the moment from
// which an Envoy could have been asked.
func NewTracker(def Definition, policy Policy, base time.Time) *Tracker {
	return &Tracker{def: def, policy: policy, base: base}
}

// Adopt takes over an existing check: its status and output stand until the
// first answer. It does nothing once the probe has a status.
func (t *Tracker) Adopt(now time.Time, status Status, output string) {
	if t.status != None {
		return
	}
	t.adopted = true
	t.set(now, status, output)
}

// Appear gives an instance that appears while the daemon runs its initial
// status. It does nothing once the probe has a status, or if the policy wants
// none.
func (t *Tracker) Appear(now time.Time, observer string) {
	if t.status != None || t.policy.InitialStatus == None {
		return
	}
	t.set(now, t.policy.InitialStatus, fmt.Sprintf("%s: awaiting the first answer of %s", t.def.Subject, observer))
}

// Redefine tells that the probe has another definition or policy. The status
// stands; a definition that asks something new awaits its own answer.
func (t *Tracker) Redefine(def Definition, policy Policy, anew bool) {
	if anew {
		t.held = time.Time{}
	}
	// Under another policy the last answer may look old only because reports came
	// at another pace.
	t.anew = t.anew || anew || policy != t.policy
	t.def, t.policy = def, policy
}

// Evaluate folds the observations of all open streams that are to observe the
// probe, also of those that have not answered, and returns the verdict as of
// now. It has to be called when one of them changes, and at the time it returns
// as next at the latest (zero: nothing changes by time alone).
func (t *Tracker) Evaluate(now time.Time, observations []Observation) (v Verdict, next time.Time) {
	t.noteStreams(now, observations)
	fresh := t.fresh(now, observations)
	t.silent = len(fresh) == 0
	if !t.silent {
		t.fold(now, fresh)
		if slices.IndexFunc(observations, func(o Observation) bool { return !o.Counts() }) < 0 || !now.Before(t.awaited.Add(t.adoption())) {
			t.awaited = time.Time{} // also of who says nothing for ever
		}
	} else if end := t.deadline(); !t.stale && !now.Before(end) {
		t.stale, t.staleSince = true, end
	}
	return t.verdict(now), t.next(now)
}

// noteStreams awaits an answer anew if a stream has come to observe the probe.
func (t *Tracker) noteStreams(now time.Time, observations []Observation) {
	for _, o := range observations {
		t.anew = t.anew || !slices.Contains(t.streams, o.Stream)
	}
	if t.anew {
		t.anew, t.awaited = false, now
	}
	t.streams = t.streams[:0]
	for _, o := range observations {
		t.streams = append(t.streams, o.Stream)
	}
}

// fresh picks the observations that count and are recent: of each observer the
// one of its newest stream that has a word.
func (t *Tracker) fresh(now time.Time, observations []Observation) []Observation {
	var out []Observation
	for _, o := range observations {
		if !o.Counts() || !now.Before(o.At.Add(t.policy.StaleAfter)) {
			continue
		}
		i := slices.IndexFunc(out, func(p Observation) bool { return p.Observer == o.Observer })
		switch {
		case i < 0:
			out = append(out, o)
		case out[i].Stream < o.Stream:
			out[i] = o
		}
	}
	slices.SortFunc(out, func(a, b Observation) int { return cmp.Compare(a.Observer, b.Observer) })
	return out
}

// fold takes over the worst of the fresh observations.
func (t *Tracker) fold(now time.Time, fresh []Observation) {
	first := t.last.IsZero() || t.adopted
	var worst Observation
	status, holding := None, false
	for _, o := range fresh {
		s, h := t.statusOf(now, o)
		holding = holding || h
		if s.Worse(status) {
			status, worst = s, o
		}
		if o.At.After(t.last) {
			t.last = o.At
		}
	}
	if !holding {
		t.held = time.Time{}
	}
	t.adopted, t.stale = false, false
	if status != t.status || first {
		t.set(now, status, t.describe(worst))
		t.observer = worst.Observer
	}
}

// statusOf is the status that one observation calls for. HTTP 429 is a warning,
// as in Consul's own HTTP check. An endpoint that is unhealthy with an expected
// code leaves the status as it is for a while: one in warning is on its way to
// healthy, and one whose content alone is bad has to be so for as many probes as
// the threshold says.
func (t *Tracker) statusOf(now time.Time, o Observation) (s Status, holding bool) {
	switch {
	case o.Answer == Healthy:
		return Passing, false
	case o.Answer == Degraded:
		return Warning, false
	case o.Answer != Unhealthy || t.def.Expects == nil || o.Code == 0:
		return Critical, false
	case o.Code == 429 && t.def.Warns && !t.def.Expects(o.Code):
		return Warning, false
	}
	hold := t.hold()
	if hold == 0 || !t.def.Expects(o.Code) {
		return Critical, false
	}
	if t.held.IsZero() {
		t.held = now
	}
	if now.Before(t.held.Add(hold)) {
		return t.status, true
	}
	return Critical, true
}

// hold is how long an unhealthy endpoint with an expected code leaves the status
// as it is.
func (t *Tracker) hold() time.Duration {
	switch t.status {
	case Warning:
		return t.def.Recovery
	case Passing:
		return t.def.Confirm
	}
	return 0
}

// describe is the output for an observation: what is probed, by whom, and what
// was seen. A code that the probe expects is that of a later, good probe, and
// says nothing of a failure (facts/envoy-hds.md 0.17).
func (t *Tracker) describe(o Observation) string {
	seen := o.Answer.String()
	if o.Answer == Unhealthy && o.Code != 0 && t.def.Expects != nil && !t.def.Expects(o.Code) {
		seen += fmt.Sprintf(", HTTP %d", o.Code)
	}
	return fmt.Sprintf("%s: %s, says Envoy %s", t.def.Subject, seen, o.Observer)
}

func (t *Tracker) set(now time.Time, status Status, output string) {
	if status != t.status {
		t.since = now
	}
	t.status, t.output, t.observer = status, cut(output), ""
}

// deadline is when silence makes the probe stale.
func (t *Tracker) deadline() time.Time {
	if t.last.IsZero() || !t.awaited.IsZero() {
		base := t.base
		if t.last.After(base) {
			base = t.last
		}
		return base.Add(t.adoption())
	}
	return t.last.Add(t.policy.StaleAfter)
}

// adoption is how long an answer is awaited.
func (t *Tracker) adoption() time.Duration {
	return max(t.policy.AdoptTimeout, t.def.Grace+2*t.policy.ReportInterval)
}

// next is when time alone changes the verdict.
func (t *Tracker) next(now time.Time) time.Time {
	next := t.deadline()
	switch { // reports that change nothing make no news, yet each is an answer
	case t.stale:
		next = now.Add(t.policy.ReportInterval)
	case !t.silent: // when the stream ends, what it said last is not seen any more
		next = earlier(next, now.Add(t.policy.StaleAfter/10))
	}
	if end := t.held.Add(t.hold()); !t.held.IsZero() && end.After(now) {
		next = earlier(next, end)
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// verdict is the state as the check should show it.
func (t *Tracker) verdict(now time.Time) Verdict {
	v := Verdict{Phase: t.phase(), Status: t.status, Output: t.output, Observer: t.observer, Since: t.since, Alive: t.status != None, Overdue: t.stale}
	if v.Phase != Stale {
		return v
	}
	switch t.policy.OnStale {
	case Expire:
		v.Alive, v.Lapsed = false, t.staleSince
	case TurnCritical:
		t.set(now, Critical, t.def.Subject+": stale, no Envoy has answered for too long")
		v.Status, v.Output, v.Observer, v.Since = t.status, t.output, t.observer, t.since
	}
	return v
}

func (t *Tracker) phase() Phase {
	switch {
	case t.stale && t.status != None:
		return Stale
	case t.adopted:
		return Adopted
	case t.last.IsZero():
		return Pending
	case !t.awaited.IsZero() && t.silent:
		return Adopted
	}
	return Reported
}

// cut shortens an output to its limit, between two runes.
func cut(s string) string {
	if len(s) <= maxOutput {
		return strings.ToValidUTF8(s, "�")
	}
	s = s[:maxOutput]
	for !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s[:len(s)-1], "�")
}
