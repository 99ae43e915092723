package checks

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// crowd is how many checks a manager has whose costs are counted.
const crowd = 1000

// idleAgent is never asked.
type idleAgent struct{ Agent }

// silent are the Metrics of those who count otherwise.
type silent struct{}

func (silent) CheckWrite(string, string, time.Duration) {}
func (silent) Refreshed()                               {}
func (silent) Transition(string)                        {}
func (silent) WriteDelay(time.Duration)                 {}
func (silent) CheckLost()                               {}

// settledManager has a crowd of checks that the agent shows as they are wanted,
// and of which each is due at a moment of its own within an hour.
func settledManager(t *testing.T) (*Manager, *catalog.Snapshot, time.Time) {
	t.Helper()
	m, err := New(Config{Agent: idleAgent{}, TTL: 3 * time.Hour, OrphanGrace: time.Minute, Logger: hclog.NewNullLogger(), Metrics: silent{}})
	require.NoError(t, err)
	now := time.Now()
	snap := &catalog.Snapshot{ReadAt: now, Checks: map[string]*catalog.Check{}}
	for i := range crowd {
		id := fmt.Sprint("hds:", i)
		snap.Checks[id] = &catalog.Check{ID: id, ServiceID: fmt.Sprint(i), Type: catalog.CheckTypeTTL, Notes: notes, Status: "passing"}
		m.entries[id] = &entry{
			want:    Want{CheckID: id, ServiceID: fmt.Sprint(i), Status: health.Passing, Alive: true},
			present: true, told: true, status: health.Passing, generation: m.generation, next: now.Add(time.Hour * time.Duration(i+1) / crowd),
		}
	}
	m.Sync(snap)
	require.Zero(t, len(m.queued()))
	return m, snap, now
}

// queued are the checks that wait for a worker.
func (m *Manager) queued() []string { return m.queues.all() }

// forceAll makes every check need a write, in a way that only shows to who looks.
func (m *Manager) forceAll() {
	for _, e := range m.entries {
		e.forced = true
	}
}

func TestTimeCostsWhatIsDueOnly(t *testing.T) {
	m, _, now := settledManager(t)
	m.forceAll()
	m.wake(now)
	assert.Zero(t, len(m.queued()), "nothing is due, so nothing is looked at")
	m.wake(now.Add(time.Hour * 3 / crowd))
	assert.ElementsMatch(t, []string{"hds:0", "hds:1", "hds:2"}, m.queued())
}

func TestTheTickCostsNoAllocation(t *testing.T) {
	m, _, now := settledManager(t)
	assert.Zero(t, testing.AllocsPerRun(10, func() { m.wake(now) }))
}

func TestSyncCostsOnlyWhatChanges(t *testing.T) {
	m, snap, now := settledManager(t)
	m.forceAll()
	next := *snap
	next.ReadAt = now.Add(time.Second)
	m.Sync(&next)
	assert.Zero(t, len(m.queued()), "all is as it was shown last")
	changed := *snap.Checks["hds:7"]
	snap.Checks["hds:7"] = &changed
	m.Sync(&next)
	assert.Equal(t, []string{"hds:7"}, m.queued())
}

// A check that was written since it was seen is looked at, whoever shows it: the
// agent may have lost the write.
func TestSyncLooksAgainAfterAWriteOfItsOwn(t *testing.T) {
	m, snap, now := settledManager(t)
	e := m.entries["hds:7"]
	m.done(job{id: "hds:7", entry: e, op: opUpdate, want: e.want, status: health.Critical}, nil, now)
	require.Equal(t, health.Critical, e.status)
	next := *snap
	next.ReadAt = time.Now().Add(time.Second)
	m.Sync(&next)
	assert.Equal(t, health.Passing, e.status)
}

// A shorter grace counts for the orphans that there are.
func TestAShorterGraceEndsOrphansAtOnce(t *testing.T) {
	m, snap, now := settledManager(t)
	m.drop("hds:7")
	m.Sync(snap)
	require.False(t, m.entries["hds:7"].orphan.IsZero())
	m.entries["hds:7"].orphan = now.Add(-10 * time.Second)
	m.Reconfigure(m.config.TTL, 5*time.Second)
	assert.True(t, m.entries["hds:7"].withdrawn)
}
