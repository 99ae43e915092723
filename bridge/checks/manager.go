package checks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/bridge/agenda"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/logging"
)

const (
	// workers is how many writes are under way at once; with the reads of the
	// snapshot they stay within four connections.
	workers = 3
	// tickEvery is how often at most the manager looks for what time alone has made
	// due.
	tickEvery = 100 * time.Millisecond
	// orphanPatience is how long an orphan has to be one to be worth a line: at the
	// start its probe may wait for what is not known yet.
	orphanPatience = 3 * time.Second
	// The pauses of all writes while the agent fails or is away.
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 5 * time.Second
)

// Manager keeps checks as they are wanted. Its methods may be called from any
// goroutine, and none of them waits for the agent but Run and Flush.
type Manager struct {
	config Config
	epoch  time.Time
	// faults logs the writes that fail.
	faults *logging.Limiter

	mu   sync.Mutex
	cond *sync.Cond
	// stopped says that Run has ended.
	stopped bool
	entries map[string]*entry
	// removed is when checks were removed that an older snapshot may still show.
	removed map[string]time.Time
	// agenda is when time alone makes a check need something: of thousands, a tick
	// touches those that are due.
	agenda agenda.Agenda[string]
	// alarm is when tick looks at the agenda, zero is never; sooner tells it that
	// alarm has come nearer.
	alarm  time.Time
	sooner chan struct{}
	// history are the last changes of their statuses.
	history history
	// generation moves whenever every check has to be registered once more. A
	// register that was under way then is of the generation before.
	generation int
	// unread is when the token changed, if no snapshot was read since: nothing is
	// written then. held is when it changed first since then, and answered says that the
	// agent has taken a write all the same.
	unread, held time.Time
	answered     bool
	queues       queues
	// pause is until when nothing is written, failures how often in a row the
	// agent failed as a whole; away says that it could not even be reached.
	pause    time.Time
	failures int
	away     bool
}

// New makes a manager; it writes when Run is called.
func New(config Config) (*Manager, error) {
	if config.Agent == nil || config.TTL <= 0 {
		return nil, errors.New("checks need an agent and a TTL")
	}
	if config.Draw == nil {
		config.Draw = rand.N[time.Duration]
	}
	if config.Bind == nil {
		config.Bind = func(ctx context.Context) context.Context { return ctx }
	}
	m := &Manager{
		config: config, epoch: time.Now(), faults: logging.NewLimiter(config.Logger, 1),
		entries: map[string]*entry{}, removed: map[string]time.Time{}, generation: 1,
		sooner: make(chan struct{}, 1),
	}
	m.cond = sync.NewCond(&m.mu)
	return m, nil
}

// Set says what a check should be from now on. A check that Withdraw or an
// orphan's grace was about to remove stays.
func (m *Manager) Set(w Want) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[w.CheckID]
	if e == nil {
		e = &entry{unsure: true} // until a snapshot tells whether it is there
		m.entries[w.CheckID] = e
	}
	now := time.Now()
	if !w.Alive && w.Status != health.None && (e.want.Alive || e.lapsed.IsZero()) {
		e.lapse(w.Lapsed, now)
	}
	revived := w.Alive && !e.want.Alive && e.present && e.orphan.IsZero()
	e.want, e.withdrawn, e.orphan = w, false, time.Time{}
	e.forced = e.forced || revived
	m.consider(w.CheckID, e, now)
}

// Withdraw removes a check, if it is there and ours.
func (m *Manager) Withdraw(checkID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[checkID]; e != nil {
		m.withdraw(checkID, e)
	}
}

func (m *Manager) withdraw(id string, e *entry) {
	if !e.present && !e.busy {
		m.drop(id)
		return
	}
	e.withdrawn = true
	m.consider(id, e, time.Now())
}

func (m *Manager) drop(id string) {
	delete(m.entries, id)
	m.agenda.Set(id, time.Time{})
}

// Forget drops a check without a word to the agent, which removed it along with
// its service.
func (m *Manager) Forget(checkID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(checkID)
}

// Hold tells that the token is about to change: from now on nothing is decided before a
// snapshot is read that is newer. With a token that was dead nothing could be read, and
// a check of somebody else's that came meanwhile would be taken over. Once the token has
// changed, Reregister has to follow.
func (m *Manager) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold()
}

func (m *Manager) hold() {
	now := time.Now()
	if m.unread.IsZero() {
		m.held = now
	}
	m.unread, m.answered = now, false
}

// Reregister registers every check once again, because the token has changed: the
// agent writes to the catalog with the one that a check was registered with
// (facts/consul.md 3). It waits for a snapshot that is read from now on, as Hold does.
func (m *Manager) Reregister() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold()
	m.reregister()
	m.config.ReadAgain()
}

func (m *Manager) reregister() {
	m.generation++
	m.hurry()
	for id, e := range m.entries {
		// What the token was refused, the agent may have been as well.
		e.heal = e.heal || errors.Is(e.err, ErrDenied)
		m.consider(id, e, time.Now())
	}
	m.cond.Signal() // what has waited already
}

// hurry lets what has failed be tried again at once.
func (m *Manager) hurry() {
	m.failures, m.pause = 0, time.Time{}
	for _, e := range m.entries {
		e.hurry()
	}
}

// Heal registers one check again, so that the servers hear of it.
func (m *Manager) Heal(checkID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[checkID]; e != nil && e.present {
		e.generation, e.heal = 0, true
		m.consider(checkID, e, time.Now())
	}
}

// Reconfigure changes the TTL, which every check then gets, and the orphans'
// grace.
func (m *Manager) Reconfigure(ttl, orphanGrace time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := ttl != m.config.TTL
	m.config.TTL, m.config.OrphanGrace = ttl, orphanGrace
	for id, e := range m.entries {
		if changed {
			e.outlives(ttl)
		}
		m.consider(id, e, time.Now()) // its grace may be over
	}
	if changed {
		m.reregister()
	}
}

// States tells what is known of each check.
func (m *Manager) States() map[string]State {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]State, len(m.entries))
	for id, e := range m.entries {
		out[id] = State{ServiceID: e.want.ServiceID, Status: e.status, Output: e.shown, Foreign: e.foreign, Orphan: !e.orphan.IsZero(), Err: e.err, Wrote: string(e.wrote), WroteAt: e.wroteAt}
	}
	return out
}

// consider puts a check into the queue that it belongs to now, if any, and onto the
// agenda. It has to follow whatever changes an entry.
func (m *Manager) consider(id string, e *entry, now time.Time) {
	if !e.orphan.IsZero() && !e.withdrawn {
		m.outgrow(e, now.Sub(e.orphan))
	}
	m.agenda.Set(id, e.wakes(now, m.config.OrphanGrace))
	m.wakeBy(m.agenda.Next())
	o, urgent := e.need(now, m.generation)
	if o == opNone {
		return
	}
	if to := e.waits(urgent); e.queued < to {
		if m.queues.empty() {
			m.cond.Signal() // a worker, which wakes the next if there is more
		}
		e.queued = to
		m.queues.put(id, to)
	}
}

// wakeBy makes tick look at a moment at the latest; zero is never.
func (m *Manager) wakeBy(at time.Time) {
	if at.IsZero() || !m.alarm.IsZero() && !at.Before(m.alarm) {
		return
	}
	m.alarm = at
	select {
	case m.sooner <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and then returns nil.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error { m.work(ctx); return nil })
	}
	group.Go(func() error { m.tick(ctx); return nil })
	return group.Wait()
}

// tick looks for what time alone makes due, until ctx ends; then it wakes the
// workers for the last time.
func (m *Manager) tick(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.stopped = true
			m.cond.Broadcast()
			m.mu.Unlock()
			return
		case <-m.sooner:
		case <-timer.C:
			looked = time.Now()
			m.wake(looked)
		}
		m.set(timer, looked)
	}
}

// set makes a timer go off at the alarm, and not too soon after the last look.
func (m *Manager) set(timer *time.Timer, looked time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alarm.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(time.Until(m.alarm), time.Until(looked.Add(tickEvery))))
}

// wake looks at the checks that are due, and lets the workers look at what a pause
// has held back.
func (m *Manager) wake(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarm = time.Time{}
	for id, ok := m.agenda.Due(now); ok; id, ok = m.agenda.Due(now) {
		m.consider(id, m.entries[id], now)
	}
	m.wakeBy(m.agenda.Next())
	if !m.queues.empty() {
		m.cond.Signal()
	}
}

// outgrow tells of an orphan of some age, and withdraws one whose grace is over.
func (m *Manager) outgrow(e *entry, age time.Duration) {
	switch {
	case age >= m.config.OrphanGrace:
		e.withdrawn = true
		m.config.Logger.Info("removing a check of ours that no probe explains", naming(e.want)...)
	case age >= orphanPatience && !e.announced:
		e.announced = true
		m.config.Logger.Info("check of ours that no probe explains, keeping it for a while",
			append(naming(e.want), "grace", m.config.OrphanGrace.String())...)
	}
}

// pauseFor makes all writes wait after the agent failed as a whole.
func (m *Manager) pauseFor(now time.Time) {
	pause := min(pauseFirst<<min(m.failures, 16), pauseMost)
	m.failures++
	m.pause = now.Add(pause/2 + m.config.Draw(pause/2+1))
}
