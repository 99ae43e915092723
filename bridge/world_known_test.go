package bridge

import (
	"slices"
	"strings"
	"time"
)

// broke is fault for those who do not hold the lock.
func (m *model) broke(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault(format, args...)
}

// registered takes in that an instance was registered.
func (m *model) registered(id string, f form, sidecar bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inst, now := m.known[id], time.Now()
	m.stirred = now
	switch {
	case inst == nil:
		inst = &knownInstance{id: id, since: now, fresh: true}
		m.known[id] = inst
	case !inst.parted.IsZero() && !m.scene.agent.hidden[id] && now.Sub(inst.parted) > 2*slack && m.fine.Before(inst.parted) && m.daemon != nil:
		*inst = knownInstance{id: id, since: now, fresh: true}
	case !inst.parted.IsZero(): // it may not have been missed, and if it was, not be seen again
		inst.fresh, inst.doubted, inst.seen = false, true, nil
		inst.mixed = f == formBad || m.scene.agent.hidden[id]
	case f == formBad: // what it was asked for before goes on, and who observes it
		sidecar = inst.sidecar
		inst.doubted = inst.doubted || inst.seen != m.daemon
	case inst.form != f: // it may not have been seen in its form before
		inst.doubted = inst.doubted || inst.seen != m.daemon
	}
	inst.mixed = inst.mixed && (f == formBad || m.scene.agent.hidden[id])
	inst.form, inst.sidecar, inst.parted = f, sidecar, time.Time{}
	inst.veiled = m.scene.agent.hidden[id]
}

// deregistered takes in that an instance's registration has ended.
func (m *model) deregistered(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[id].parted = time.Now()
	for _, s := range m.subjects {
		if s.instance == id {
			s.shown, s.present, s.met, s.explained = "", nil, nil, nil
		}
	}
}

// doubt takes in that the daemon may have another picture of an instance.
func (m *model) doubt(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inst := m.known[id]; inst != nil {
		inst.doubted = true
	}
}

// unveil takes in that an instance is not hidden any more.
func (m *model) unveil(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inst := m.known[id]; inst != nil {
		inst.veiled = false
	}
}

// forget takes in that a check is not ours any more.
func (m *model) forget(check string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subject(check)
	s.shown, s.present, s.met, s.explained = "", nil, nil, nil
}

// forgetIfUnprobed takes in that a check comes which no probe explains.
func (m *model) forgetIfUnprobed(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subject(m.scene.checkOf(instance))
	if yes, _ := m.probed(s); !yes {
		s.explained = nil
	}
}

// returned takes in that the agent is back.
func (m *model) returned() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.back = time.Now()
}

// registrations are the instances that are registered, in order.
func (m *model) registrations() (out []knownInstance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, inst := range m.known {
		if inst.parted.IsZero() {
			out = append(out, *inst)
		}
	}
	slices.SortFunc(out, func(a, b knownInstance) int { return strings.Compare(a.id, b.id) })
	return out
}

// calmAt is when everything has to be as it should.
func (m *model) calmAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calm
}

// empty judges an agent without instances.
func (m *model) empty() {
	defer m.scene.agent.lock()()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, c := range m.scene.agent.checks {
		if holds(c) {
			m.fault("5: %s is left, and its instance is not", id)
		}
	}
}
