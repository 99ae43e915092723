package checks

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/logging"
)

// writeTimeout bounds one write. The agent holds its lock for 15 s and more
// when its servers hang (facts/consul.md 0.9).
const writeTimeout = 15 * time.Second

// readWithin is how soon an agent that was away is read again, in all likelihood, if the
// last write failed just before it was back: it is looked for each second.
const readWithin = pauseMost + time.Second

const (
	writeFailed  = "writing a check failed, trying again"
	writeUnsaved = "the agent shows a check, but cannot save it"
)

// job is one write, decided and not yet done.
type job struct {
	id    string
	entry *entry
	op    op
	want  Want
	// from is the status before the write, and status the one that it brings.
	from   health.Status
	status health.Status
	output string
	notes  string
	ttl    time.Duration
	// generation is the manager's when the write began.
	generation int
	// turns says that the write changes the check's status.
	turns bool
}

// work writes one check after the other until ctx ends.
func (m *Manager) work(ctx context.Context) {
	for {
		j, bound, ok := m.next(ctx)
		if !ok {
			return
		}
		start := time.Now()
		err := m.write(bound, j)
		if ctx.Err() != nil {
			return // what became of the write is the next daemon's matter
		}
		m.done(j, err, start)
	}
}

// next waits for a check that needs a write, and decides which, with the context that
// the write is to have. It returns false when the manager has stopped.
func (m *Manager) next(ctx context.Context) (job, context.Context, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if m.stopped {
			return job{}, nil, false
		}
		now := time.Now()
		if j, ok := m.take(now); ok {
			if !m.queues.empty() {
				m.cond.Signal()
			}
			return j, m.config.Bind(ctx), true
		}
		m.cond.Wait()
	}
}

// refreshEvery is how far apart the refreshes of a check are.
func (m *Manager) refreshEvery() time.Duration { return m.config.TTL / 3 }

// heldUntil is when the writes go on that a pause or a new token holds back, with which
// nothing was read yet. If reads hang for as long as refreshes may be apart, these go on
// all the same.
func (m *Manager) heldUntil() time.Time {
	if blind := m.held.Add(m.refreshEvery()); blind.After(m.pause) {
		return blind
	}
	return m.pause
}

// take decides on the next write: urgent ones first, but not for ever.
func (m *Manager) take(now time.Time) (job, bool) {
	if held := m.heldUntil(); now.Before(held) {
		if !m.queues.empty() {
			m.wakeBy(held)
		}
		return job{}, false
	}
	for {
		id, from := m.queues.pop()
		if from == nowhere {
			return job{}, false
		}
		e := m.entries[id]
		if e == nil || e.queued != from {
			continue
		}
		e.queued = nowhere
		if o, _ := e.need(now, m.generation); o != opNone {
			m.queues.wrote(from)
			return m.start(id, e, o, now), true
		}
	}
}

func (m *Manager) start(id string, e *entry, o op, now time.Time) job {
	e.busy = true
	if e.revives(o) && e.expires.IsZero() {
		e.expires = e.lapsed.Add(m.config.TTL)
	}
	status, output := e.goal(now)
	return job{
		id: id, entry: e, op: o, want: e.want, from: e.status, status: status, output: output, notes: e.nextNotes(), ttl: m.config.TTL, generation: m.generation,
		turns: status != e.status && (o == opUpdate || o == opRegister && !e.present),
	}
}

// write does a job within its bound of time.
func (m *Manager) write(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch j.op {
	case opRegister:
		return m.config.Agent.Register(ctx, Registration{
			CheckID: j.id, ServiceID: j.want.ServiceID, Name: j.want.Name, Notes: j.notes, TTL: j.ttl, Status: j.status,
		})
	case opDeregister:
		return m.config.Agent.Deregister(ctx, j.id)
	}
	return m.config.Agent.Update(ctx, j.id, j.status, j.output)
}

// done takes over how a job ended.
func (m *Manager) done(j job, err error, start time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.count(j.op, result(err), now.Sub(start))
	m.config.Logger.Trace("wrote a check", "check_id", j.id, "op", string(j.op), "status", j.status.Word(), "result", result(err))
	e := j.entry
	e.busy, e.touched, e.seen = false, now, nil
	unsaved := errors.Is(err, ErrUnsaved)
	if unsaved { // what ails the agent is told, and what it has done counts
		m.faults.Log(now, hclog.Warn, writeUnsaved, writeUnsaved, append(naming(j.want), "op", string(j.op), "error", err)...)
	}
	if err == nil || unsaved {
		m.failures, m.answered = 0, true
		m.succeeded(j, now)
	} else {
		m.failed(j, err, now)
	}
	if m.entries[j.id] == e {
		m.consider(j.id, e, now)
	}
}

// count tells the metrics of a write; a refresh is an update.
func (m *Manager) count(o op, result string, d time.Duration) {
	if o == opRefresh {
		o = opUpdate
		if result == "ok" {
			m.config.Metrics.Refreshed()
		}
	}
	m.config.Metrics.CheckWrite(string(o), result, d)
}

func (m *Manager) succeeded(j job, now time.Time) {
	e := j.entry
	silent := e.mayBeSilent(j, now, m.config.TTL)
	e.did(j, now, refreshAt(j.id, m.epoch, now, m.refreshEvery()))
	if j.op == opDeregister {
		m.remove(j.id, e, now)
		return
	}
	if silent {
		e.generation, e.heal = 0, true
	}
	if j.turns {
		m.config.Metrics.Transition(string(j.status))
		m.history.add(j.transition(now))
		if !j.want.ReportedAt.Equal(e.measured) && !j.want.ReportedAt.IsZero() {
			e.measured = j.want.ReportedAt
			m.config.Metrics.WriteDelay(now.Sub(j.want.ReportedAt))
		}
		m.logChange(j.want, j.from, j.status, j.output)
	}
}

// transition tells of a job that has turned its check.
func (j job) transition(now time.Time) Transition {
	t := Transition{At: now, CheckID: j.id, ServiceID: j.want.ServiceID, From: j.from, To: j.status, Output: j.output}
	if j.output == j.want.Output {
		t.Observer = j.want.Observer
	}
	return t
}

// logChange tells of a status that the agent shows from now on.
func (m *Manager) logChange(w Want, from, to health.Status, output string) {
	m.config.Logger.Info("check changed", append(naming(w), logging.Known(
		"from", from.Word(), "to", to.Word(), "output", output, "phase", w.Phase, "node_id", w.Observer)...)...)
}

// naming is how lines of the log name a check.
func naming(w Want) []any {
	return logging.Known("check_id", w.CheckID, "service", w.Service, "service_id", w.ServiceID)
}

// remove drops a check that the agent has not any more, unless it is wanted again
// by now. A snapshot that was read before shows it still: it is no orphan.
func (m *Manager) remove(id string, e *entry, now time.Time) {
	m.removed[id] = now
	if e.withdrawn && m.entries[id] == e {
		m.drop(id)
	}
}

func (m *Manager) failed(j job, err error, now time.Time) {
	e := j.entry
	switch {
	case errors.Is(err, ErrTokenUnknown): // one problem of all checks, and not the manager's to tell
		m.config.Logger.Debug(writeFailed, append(naming(j.want), "op", string(j.op), "error", err)...)
	case e.worthAWarning(err): // what ails the agent ails many checks: the same for all is one line
		m.faults.Log(now, hclog.Warn, result(err), writeFailed, append(naming(j.want), "op", string(j.op), "error", err)...)
	}
	e.failed(err, now, m.refreshEvery(), m.config.Draw)
	switch {
	case errors.Is(err, ErrUnknown) && j.op == opDeregister:
		e.did(j, now, now)
		m.remove(j.id, e, now)
	case errors.Is(err, ErrUnknown):
		e.unsure = true
		if e.failures == 1 {
			e.retry = time.Time{} // the next snapshot explains the first failure
		}
		m.config.ReadAgain()
	case errors.Is(err, ErrTokenUnknown):
		m.pauseFor(now) // it is the same for all
	case errors.Is(err, ErrDenied):
	default:
		m.away = m.away || errors.Is(err, ErrAway)
		m.pauseFor(now)
		if m.away && !m.unread.IsZero() && !m.answered {
			m.pause = now.Add(min(readWithin, m.refreshEvery())) // until now it could not be read either
		}
	}
}

// result names how a write ended, for metrics.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrUnknown):
		return "gone"
	case errors.Is(err, ErrDenied):
		return "denied"
	case errors.Is(err, ErrAway):
		return "away"
	}
	return "error"
}
