package checks

import (
	"context"
	"time"

	"github.com/consul-hds/consul-hds/bridge/health"
)

// Flush refreshes every check that is alive once, and returns when this and all
// other writes are done, or ctx ends.
func (m *Manager) Flush(ctx context.Context) error {
	m.mu.Lock()
	m.rush()
	for id, e := range m.entries {
		e.forced = e.want.Alive && e.present && !e.foreign
		m.consider(id, e, time.Now())
	}
	m.mu.Unlock()
	return m.settled(ctx)
}

// settled returns when no check needs a write, or ctx ends.
func (m *Manager) settled(ctx context.Context) error {
	for !m.idle() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Finish is Flush for a daemon that leaves its checks otherwise than as they are:
// it removes every check, or turns it critical with this output.
func (m *Manager) Finish(ctx context.Context, remove bool, output string) error {
	m.mu.Lock()
	m.rush()
	for id, e := range m.entries {
		switch {
		case e.foreign:
		case remove:
			m.withdraw(id, e)
		case e.present || e.want.Status != health.None:
			e.want.Status, e.want.Output, e.want.Observer, e.want.Alive = health.Critical, output, "", true
			m.consider(id, e, time.Now())
		}
	}
	m.mu.Unlock()
	return m.settled(ctx)
}

// idle says that no check needs a write, nor awaits that one is tried again.
func (m *Manager) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if o, _ := e.lacks(time.Now(), m.generation); o != opNone || e.busy {
			return false
		}
	}
	return true
}

// rush lets everything be written at once that can be: no snapshot comes any more.
func (m *Manager) rush() {
	m.unread, m.held = time.Time{}, time.Time{}
	m.hurry()
	m.cond.Signal() // what has waited already
}
