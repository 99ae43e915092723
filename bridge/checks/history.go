package checks

import (
	"slices"
	"strings"
	"time"

	"github.com/consul-hds/consul-hds/bridge/health"
)

// Transition is a status that a check took for the agent, by a write of ours that
// the agent acknowledged, or because the check's TTL ran out.
type Transition struct {
	// At is when the agent acknowledged the write, or was first seen with the status.
	At        time.Time
	CheckID   string
	ServiceID string
	// From is None for a check that was registered.
	From, To health.Status
	// Output is what came with To, at most 1,024 bytes of it.
	Output string
	// Observer is the node id of the Envoy whose answer led to To; empty if none did.
	Observer string
}

const (
	// historySize bounds a history, and with the bounds of ids and outputs its
	// memory: 200 × 4 kB, less than 1 MB.
	historySize = 200
	// historyNewest is how many of the newest transitions it holds in any case.
	historyNewest = 100
	// historyOutput bounds an output in bytes. The agent's own, which tells of a TTL
	// that ran out, may be longer than any of ours.
	historyOutput = 1024
)

// history is the last transitions, oldest first. A failure stays longest: of the
// older half the first transition to passing goes, and only where there is none the
// first of all. An instance that flaps would else push out what happened to others.
type history struct {
	list []Transition
}

func (h *history) add(t Transition) {
	t.Output = strings.Clone(strings.ToValidUTF8(t.Output[:min(len(t.Output), historyOutput)], ""))
	h.list = append(h.list, t)
	if len(h.list) <= historySize {
		return
	}
	older := h.list[:len(h.list)-historyNewest]
	i := max(0, slices.IndexFunc(older, func(t Transition) bool { return t.To == health.Passing }))
	h.list = slices.Delete(h.list, i, i+1)
}

// Transitions are the last transitions of the checks, the newest first: the last
// 100 and, behind them, up to 100 older ones, of which failures are kept longest.
// A check in shadow mode has none, and neither has one that is removed or that was
// found as it is.
func (m *Manager) Transitions() []Transition {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.history.list)
	slices.Reverse(out)
	return out
}
