package bridge

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/consul-hds/consul-hds/bridge/checks"
)

// How long the daemon may take for what the design sets no time for.
const (
	// patience is how long after a disturbance everything has to be as it should:
	// a poll, the grace of a first bad answer, and a few pauses.
	patience = 9 * time.Second
	// hurt is patience after reads or writes failed, which are tried again after up
	// to 5 s; deniedFor after they were denied, which are tried again after up to 30 s.
	hurt      = 25 * time.Second
	deniedFor = 45 * time.Second
	// slack is what a bound that is in the design may be missed by: a look, a poll,
	// a report.
	slack = 3 * time.Second
	// hangs is how long a write may hang, with what follows it: a poll, a pause.
	hangs = 20 * time.Second
	// memory is how long a bad word excuses a critical check.
	memory = 40 * time.Second
)

// model is what has to be true of Consul, by what the world did and what Envoys
// said: the design, parts 2 to 5 and 7, without a line of the product. It knows no
// exact times but bounds. What breaks a rule is a fault.
type model struct {
	scene *scene

	mu       sync.Mutex
	faults   []string
	subjects map[string]*subject
	known    map[string]*knownInstance
	envoys   []*simEnvoy
	streams  int
	// daemon is the one that runs, nil without one; down is since when there is none.
	daemon *simDaemon
	// calm is when everything has to be as it should, if nothing happens before; fine
	// is since when every write gets through. Both can be in the future.
	calm, fine time.Time
	// back is when the agent was back last; stirred is when a stream came, or
	// something was registered or defined, last.
	back, stirred time.Time
	// kept says that a stale status was ever to be kept.
	kept bool
}

// knownInstance is an instance that is registered.
type knownInstance struct {
	id   string
	form form
	// since is when it was registered, after having been absent for a while; fresh
	// says that the daemon must have seen it absent, seen is the daemon that has
	// seen it for sure.
	since   time.Time
	fresh   bool
	seen    *simDaemon
	sidecar bool
	// mixed says that the daemon may go on with the probe of an earlier registration,
	// and so with other observers.
	mixed bool
	// doubted says that the daemon may not have seen it as it was.
	doubted bool
	// veiled says that it was registered while it was hidden.
	veiled bool
	// parted is when its registration ended.
	parted time.Time
}

// subject is a check of ours, or what may become one.
type subject struct {
	id, instance string
	// shown is the status that the agent showed last, of this instance.
	shown string
	// good and bad are when an Envoy that is to observe it said so last; a bad word
	// before the first probe has ended is none. heard is the daemon that heard any
	// answer.
	good, bad time.Time
	heard     *simDaemon
	// cluster is the newest one that any Envoy was asked about.
	cluster string
	// alive is since when the check has to be kept alive, and lived when it had to be
	// last, after long enough to have been refreshed; stale is since when its probe is
	// stale for sure, zero if it is not.
	alive, lived, stale time.Time
	// present is the daemon in whose time the check was there, since it has a probe; met
	// is the one that knew of it, with a probe or without; tried the one in whose time
	// there was a probe, and explained the one that knows of it for sure.
	present, met, tried, explained *simDaemon
	// born is when the check came to be, by somebody else's doing and after it had been
	// gone, since gone, for long enough to be missed.
	born, gone time.Time
	// writes are when the daemon wrote it.
	writes []time.Time
}

func newModel(s *scene) *model {
	return &model{scene: s, subjects: map[string]*subject{}, known: map[string]*knownInstance{}}
}

// fault notes that a rule is broken.
func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf("%s: %s", time.Since(began), fmt.Sprintf(format, args...)))
}

// disturb says that something has happened, and how long it may take effect.
func (m *model) disturb(p time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disturbed(p)
}

func (m *model) disturbed(p time.Duration) {
	if at := time.Now().Add(p); at.After(m.calm) {
		m.calm = at
	}
}

// hurtFor says that reads or writes may fail for so long from now.
func (m *model) hurtFor(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disturbed(d)
	if at := time.Now().Add(d); at.After(m.fine) {
		m.fine = at
	}
}

// subject is what is known of a check id.
func (m *model) subject(id string) *subject {
	s := m.subjects[id]
	if s == nil {
		_, instance, _ := strings.Cut(id, ":")
		s = &subject{id: id, instance: instance}
		m.subjects[id] = s
	}
	return s
}

// probed says whether the check has a probe, by what is registered; unsure says
// that this depends on what the daemon knew before.
func (m *model) probed(s *subject) (yes, unsure bool) {
	inst := m.known[s.instance]
	if inst == nil || !inst.parted.IsZero() {
		return false, false
	}
	switch f := inst.form; {
	case s.id != m.scene.checkOf(s.instance):
		return false, false
	case f == formBad:
		return s.explained != nil && s.explained == m.daemon, s.explained == nil || s.explained != m.daemon
	default:
		return f.probed(m.scene.ruled, s.instance), false
	}
}

// observes says whether an Envoy is to observe an instance.
func (m *model) observes(e *simEnvoy, instance string) bool {
	inst := m.known[instance]
	if inst == nil || e.stranger {
		return false
	}
	node, own := strings.HasPrefix(e.id, "node-"), e.id == sidecarID(instance)
	switch {
	case inst.mixed, !inst.parted.IsZero() && m.scene.agent.hidden[instance]: // its sidecar is seen to go, and it is not
		return node || own
	case inst.sidecar:
		return own
	}
	return node
}

// holds says whether the agent's check is ours.
func holds(c *simCheck) bool { return c != nil && checks.Ours(&c.Check) }
