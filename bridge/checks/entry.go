package checks

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// The pauses before a write of one check is tried again. What the token may not
// do is tried rarely, for the agent logs each refusal, but no more rarely than the check
// is refreshed.
const (
	retryFirst  = 250 * time.Millisecond
	retryMost   = 5 * time.Second
	retryDenied = 30 * time.Second
)

// op is a write to the agent.
type op string

const (
	opNone       op = ""
	opRegister   op = "register"
	opUpdate     op = "update"
	opRefresh    op = "refresh"
	opDeregister op = "deregister"
)

// entry is one check: what it should be, and what the agent is known to hold.
type entry struct {
	want Want
	// orphan says that nobody wants the check since then.
	orphan time.Time
	// announced says that the log tells of the orphan.
	announced bool
	// withdrawn says that the check is to be removed.
	withdrawn bool

	// present, name, status and output are what the agent holds, as far as is
	// known. told says that status and output were written since the check was
	// registered.
	present bool
	name    string
	status  health.Status
	output  string
	told    bool
	// shown is the output that the agent shows, which may have added to ours.
	shown string
	// foreign says that the id is a check of somebody else's.
	foreign bool
	// unsure says that a write failed in a way that only a newer snapshot explains.
	unsure bool
	// generation is that of the manager when the check was registered last, by us;
	// zero is never. Another one means that it has to be registered once more.
	generation int
	// forced says that the check has to be refreshed now.
	forced bool
	// notes are those that the agent holds; heal says that the next registration
	// has to have others.
	notes string
	heal  bool
	// measured is the report whose way to the agent was measured last: a check that
	// is restored turns to what was reported long ago.
	measured time.Time

	// seen is what the last snapshot showed of the check, if no write has ended since.
	seen *catalog.Check
	// missing is when the first snapshot was read that did not show the check,
	// although it should be there.
	missing time.Time

	// touched is when the last write ended: an older snapshot tells nothing.
	touched time.Time
	// beat is when the check's TTL began last by our doing; next is when it is due
	// to be refreshed.
	beat, next time.Time
	// lapsed is from when the TTL of a check is counted that is not alive.
	lapsed time.Time
	// expires is when the TTL would have run out of a check that had to be
	// registered again although it is not alive.
	expires time.Time

	busy     bool
	queued   queue
	failures int
	retry    time.Time
	err      error
	// wrote and wroteAt are the last write that the agent acknowledged.
	wrote   op
	wroteAt time.Time
}

// need is the write that the check needs now; urgent ones go before others.
func (e *entry) need(now time.Time, generation int) (o op, urgent bool) {
	if e.busy || now.Before(e.retry) {
		return opNone, false
	}
	return e.lacks(now, generation)
}

// lacks is need, whether or not the write may begin now.
func (e *entry) lacks(now time.Time, generation int) (o op, urgent bool) {
	switch {
	case e.unsure || e.foreign:
		return opNone, false
	case e.withdrawn:
		return opDeregister, false
	case e.want.Status == health.None:
		return opNone, false
	case !e.present:
		return opRegister, true
	}
	status, output := e.goal(now)
	switch {
	case status != e.status:
		// Also before it is registered once more: that shows the status it has now to
		// the servers, which may be one that has expired while the token was dead.
		return opUpdate, true
	case e.generation != generation:
		// Before any refresh. A check to be healed is urgent: the servers may show
		// another status than the agent.
		return opRegister, e.heal
	case e.name != e.want.Name:
		return opRegister, false
	case output != e.output || !e.told:
		return opUpdate, false
	case e.want.Alive && (e.forced || !now.Before(e.next)):
		return opRefresh, e.forced
	}
	return opNone, false
}

// wakes is the next moment at which time alone may make the check need a write, or
// an orphan worth a word; zero is never. What has come by now is not among them: it
// has to be seen to before.
func (e *entry) wakes(now time.Time, grace time.Duration) (at time.Time) {
	moments := [...]time.Time{e.retry, e.expires, {}, {}}
	if e.want.Alive {
		moments[1] = e.next
	}
	if !e.orphan.IsZero() {
		moments[2], moments[3] = e.orphan.Add(orphanPatience), e.orphan.Add(grace)
	}
	for _, m := range moments {
		if m.After(now) && (at.IsZero() || m.Before(at)) {
			at = m
		}
	}
	return at
}

// lapse notes that the check is not alive any more, by a lapse at a moment; zero is
// now. The TTL of one that could not be written would have begun once more until then.
func (e *entry) lapse(at, now time.Time) {
	e.expires = time.Time{}
	switch {
	case e.present && !e.beat.IsZero():
		e.lapsed = e.beat
	case at.IsZero() || at.After(now):
		e.lapsed = now
	default:
		e.lapsed = at
	}
}

// revives says whether a write begins the TTL anew of a check that is not alive, and is
// not critical anyway.
func (e *entry) revives(o op) bool {
	switch {
	case e.want.Alive:
		return false
	case o == opUpdate:
		return e.want.Status != health.Critical && e.status != health.Critical
	}
	return o == opRegister
}

// outlives counts another TTL of a check that is not alive.
func (e *entry) outlives(ttl time.Duration) {
	if !e.expires.IsZero() {
		e.expires = e.lapsed.Add(ttl)
	}
}

// overdue says that the check is not alive, that its TTL was restarted all the
// same, and that it would have run out by now.
func (e *entry) overdue(now time.Time) bool {
	return !e.want.Alive && !e.expires.IsZero() && !now.Before(e.expires)
}

// goal is the status and output that the agent should hold. A check that is not
// alive keeps what it has, unless its last status is worse and was not written yet,
// or it had to be registered again: then its TTL is counted here.
func (e *entry) goal(now time.Time) (health.Status, string) {
	switch {
	case e.want.Alive:
		return e.want.Status, e.want.Output
	case e.overdue(now):
		return health.Critical, expired(e.want.Output)
	case e.want.Status.Worse(e.status): // the last word, which could not be written in time
		return e.want.Status, e.want.Output
	case !e.told && e.status == e.want.Status:
		return e.want.Status, e.want.Output
	case !e.told: // it may have run out before it was registered again
		return e.status, e.shown
	}
	return e.status, e.output
}

// expired is the output of a check whose TTL has run out, as far as the agent would
// say so of it.
func expired(last string) string {
	if last == "" {
		return "TTL expired"
	}
	return "TTL expired, last output: " + last
}

// secondLook is how long a check has to be missing to be lost: while an agent
// reloads its configuration it shows none for some milliseconds. A write that the
// agent refused is no look: the check may be gone with its service, which takes two
// looks of its own to be known.
const secondLook = 300 * time.Millisecond

// knows says whether nothing follows from what a snapshot shows of the check: it is
// the very value that the last one showed, and stands for what that said.
func (e *entry) knows(c *catalog.Check) bool { return c != nil && c == e.seen }

// see takes over what a snapshot shows that was read at a moment, and tells
// whether a check that was there is lost, or has to be looked for again.
func (e *entry) see(c *catalog.Check, read time.Time) (lost, again bool) {
	e.seen = c
	if c == nil && e.present && !e.withdrawn {
		if e.missing.IsZero() {
			e.missing = read
		}
		if read.Sub(e.missing) < secondLook {
			return false, true
		}
	}
	e.unsure, e.missing = false, time.Time{}
	if c == nil {
		lost = e.present
		e.present, e.told, e.foreign = false, false, false
		e.status, e.output, e.shown = health.None, "", ""
		return lost, false
	}
	e.foreign = !Ours(c)
	if e.foreign {
		e.present, e.told = false, false
		e.status, e.output, e.shown = health.None, "", ""
		return false, false
	}
	if !e.present {
		// found, not made: the output read back may lack what the agent discards,
		// and is compared only until the first write.
		e.present, e.told, e.generation = true, true, 0
		e.output = c.Output
	}
	e.name, e.notes, e.status, e.shown = c.Name, c.Notes, health.Status(c.Status), c.Output
	return false, false
}

// nextNotes are those of the next registration.
func (e *entry) nextNotes() string {
	if (e.notes == healedNotes) != e.heal {
		return healedNotes
	}
	return notes
}

// waits is the queue for a write that the check needs. A check that was there before
// and is lost is as urgent as a change: without it an instance counts as healthy.
func (e *entry) waits(urgent bool) queue {
	switch {
	case !urgent:
		return lazily
	case !e.present && e.beat.IsZero():
		return newly
	}
	return urgently
}

// mayBeSilent says whether the agent may show a status of which it never told its
// servers, also after a write that has just been done: a check that was denied to us
// has expired meanwhile, and what is denied to our token is denied to the agent,
// which writes with it and takes a refusal for done (facts/consul.md 3).
func (e *entry) mayBeSilent(done job, now time.Time, ttl time.Duration) bool {
	if done.op == opRegister && (!e.present || done.notes != e.notes) {
		return false // what is new to the agent, it tells
	}
	return errors.Is(e.err, ErrDenied) && now.Sub(e.beat) >= ttl
}

// did takes over a write that the agent acknowledged.
func (e *entry) did(j job, now, next time.Time) {
	e.failures, e.err, e.retry = 0, nil, time.Time{}
	e.wrote, e.wroteAt = j.op, now
	switch j.op {
	case opDeregister:
		e.present, e.told = false, false
		e.status, e.output = health.None, ""
		return
	case opRegister:
		if !e.present {
			e.status, e.output = j.status, ""
		} else if !e.want.Alive { // it may have run out while the write hung, and must not be revived
			e.unsure = true
		}
		e.told, e.heal = false, false
		e.present, e.generation, e.name, e.notes = true, j.generation, j.want.Name, j.notes
	default:
		// The agent carries an update to its servers with the token of the registration
		// before, and if that one is dead, takes it for done: the next tells them.
		e.heal = e.heal || e.generation != j.generation && j.turns
		e.told, e.forced = true, false
		e.status, e.output, e.shown = j.status, j.output, j.output
		e.next = next
	}
	if e.want.Alive {
		e.beat, e.expires = now, time.Time{}
	}
}

// worthAWarning says whether the log should tell of a failure. That the agent does
// not know the check, the next snapshot explains, most often by a service that is
// gone; it is a failure only when it happens again.
func (e *entry) worthAWarning(err error) bool { return !errors.Is(err, ErrUnknown) || e.failures > 0 }

// hurry lets what has failed be tried again at once.
func (e *entry) hurry() { e.failures, e.retry = 0, time.Time{} }

// failed notes a write that failed and when it may be tried again.
func (e *entry) failed(err error, now time.Time, refreshEvery time.Duration, draw func(time.Duration) time.Duration) {
	e.err = err
	most := retryMost
	if errors.Is(err, ErrDenied) {
		most = min(retryDenied, refreshEvery)
	}
	pause := min(retryFirst<<min(e.failures, 16), most)
	e.failures++
	e.retry = now.Add(pause/2 + draw(pause/2+1))
}

// refreshTogether is how far apart refreshes are that are not written one right after
// the other: to wake up for each costs more than to write it.
const refreshTogether = 500 * time.Millisecond

// refreshAt is the next time after now at which a check is due: every check has
// its own place in the period, so that refreshes are spread evenly over its
// moments.
func refreshAt(checkID string, epoch, now time.Time, period time.Duration) time.Time {
	h := fnv.New64a()
	h.Write([]byte(checkID))
	phase := time.Duration(h.Sum64()%uint64(max(1, period/refreshTogether))) * refreshTogether
	since := now.Sub(epoch) - phase
	passed := since / period
	if since >= 0 {
		passed++
	}
	return epoch.Add(phase + passed*period)
}
