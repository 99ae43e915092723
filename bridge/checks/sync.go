package checks

import (
	"errors"
	"maps"
	"time"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// Sync compares every check with a snapshot of the agent: what is lost is
// registered again, what is ours and wanted by nobody becomes an orphan. Wants
// that follow from the same snapshot have to be set before. A check that the
// snapshot shows by the same pointer as the one before is not looked at again.
func (m *Manager) Sync(snap *catalog.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, look := time.Now(), false
	back := m.away
	if back { // the agent has been read, so it is there again
		m.away, m.failures, m.pause = false, 0, now
	}
	for id, e := range m.entries {
		// The agent could be read since then, by our token.
		known := errors.Is(e.err, ErrTokenUnknown) && snap.ReadAt.After(e.touched)
		if back && errors.Is(e.err, ErrAway) || known {
			e.hurry()
			m.consider(id, e, now)
		}
		c := snap.Checks[id]
		if e.busy || !snap.ReadAt.After(e.touched) || snap.Unconfirmed[e.want.ServiceID] || e.knows(c) {
			continue
		}
		again := m.compare(id, e, c, snap.ReadAt, now)
		look = look || again
	}
	if snap.ReadAt.After(m.unread) {
		m.unread, m.held = time.Time{}, time.Time{}
	}
	maps.DeleteFunc(m.removed, func(_ string, at time.Time) bool { return snap.ReadAt.After(at) })
	if look {
		m.config.ReadAgain()
	}
	for id, c := range snap.Checks {
		if _, gone := m.removed[id]; !gone && m.entries[id] == nil && Ours(c) {
			m.addOrphan(c, now)
		}
	}
	m.cond.Broadcast()
}

// compare compares a check with what a snapshot shows of it, and tells whether it
// has to be looked for again.
func (m *Manager) compare(id string, e *entry, c *catalog.Check, read, now time.Time) (again bool) {
	before := e.status
	lost, again := e.see(c, read)
	if before != health.None && e.status != health.None && e.status != before {
		m.history.add(Transition{At: now, CheckID: id, ServiceID: e.want.ServiceID, From: before, To: e.status, Output: e.shown})
	}
	if !e.want.Alive && before != health.None && e.status == health.Critical && before != health.Critical {
		m.logChange(e.want, before, e.status, e.shown)
	}
	switch {
	case e.withdrawn && !e.present, lost && !e.orphan.IsZero(): // what nobody wants is not restored
		m.drop(id)
		return again
	case lost:
		m.config.Metrics.CheckLost()
		m.config.Logger.Info("check is lost, registering it again", naming(e.want)...)
		if !e.want.Alive {
			e.expires = e.lapsed.Add(m.config.TTL)
		}
	}
	m.consider(id, e, now)
	return again
}

// addOrphan keeps a check as it is for as long as an orphan's grace.
func (m *Manager) addOrphan(c *catalog.Check, now time.Time) {
	e := &entry{orphan: now, want: Want{
		CheckID: c.ID, ServiceID: c.ServiceID, Name: c.Name,
		Status: health.Status(c.Status), Output: c.Output, Alive: true,
	}}
	e.see(c, now)
	m.entries[c.ID] = e
	m.consider(c.ID, e, now)
}
