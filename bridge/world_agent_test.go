package bridge

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
)

// simAgent is a Consul agent and its catalog in the random world's fake time. It
// is held to the contracts of catalogtest and checkstest, as the fakes of the
// parts are; what is added is what can ail an agent: trouble, tokens, restarts.
type simAgent struct {
	mu       sync.Mutex
	services map[string]*catalog.Instance
	checks   map[string]*simCheck
	// carried is what the catalog shows of each check: what the agent could carry
	// there with the token that the check was registered with.
	carried map[string]string
	// hidden are services that no token may read or write.
	hidden map[string]bool
	// tokens are those that Consul knows; nil is an agent without ACLs.
	tokens map[string]bool
	// trouble is what ails the agent, and ends by itself.
	trouble trouble
	// index and changed are those of the doorbell.
	index   int
	changed chan struct{}
	// saw, if set, is told what happens to checks, under mu.
	saw func(event)
	// trace is every write that the agent took over, with its time.
	trace []string
}

// simCheck is a check of a simAgent.
type simCheck struct {
	catalog.Check
	token string
	ttl   time.Duration
	// ends is when the TTL runs out; zero is never.
	ends time.Time
	// last is the output that was written since the check was registered; saved
	// says that there was a write, which is what survives a restart.
	last  string
	saved bool
	// made is when the check came to be.
	made time.Time
	// shown is the daemon that was shown the check first, or last if they are several,
	// and shownAt is when.
	shown   *simDaemon
	shownAt time.Time
}

// hand is who writes: a daemon and its token, or somebody else.
type hand struct {
	daemon *simDaemon
	token  string
}

// event is something that has happened to a check.
type event struct {
	at time.Time
	id string
	// what is register, update, deregister, expire or restart.
	what string
	// before and after are the check as it was and is; nil is none.
	before, after *simCheck
	// writer is the daemon whose write it is, nil of others, and token its token.
	writer *simDaemon
	token  string
}

func newSimAgent() *simAgent {
	return &simAgent{
		services: map[string]*catalog.Instance{}, checks: map[string]*simCheck{}, carried: map[string]string{},
		hidden: map[string]bool{}, index: 10, changed: make(chan struct{}),
	}
}

// lock locks the agent as it is now: where a TTL has run out, that shows.
func (a *simAgent) lock() (unlock func()) {
	a.mu.Lock()
	for _, c := range a.checks {
		if c.ends.IsZero() || time.Now().Before(c.ends) {
			continue
		}
		before, at := *c, c.ends
		c.Status, c.Output, c.ends = "critical", "TTL expired", time.Time{}
		if c.last != "" {
			c.Output += " (last output before timeout follows): " + c.last
		}
		a.happened(event{at: at, id: c.ID, what: "expire", before: &before, after: c})
	}
	return a.mu.Unlock
}

// happened carries a check to the catalog, where its token may, and tells of it.
func (a *simAgent) happened(e event) {
	switch {
	case e.after == nil:
		delete(a.carried, e.id)
	case a.knows(e.after.token):
		a.carried[e.id] = e.after.Status
	}
	if a.saw != nil {
		a.saw(e)
	}
}

func (a *simAgent) knows(token string) bool { return a.tokens == nil || a.tokens[token] }

// ring lets the doorbell ring.
func (a *simAgent) ring() {
	a.index++
	close(a.changed)
	a.changed = make(chan struct{})
}

// put registers an instance, for the first time or again, and removes its checks
// before if that is wanted. Carried checks come with it.
func (a *simAgent) put(inst *catalog.Instance, replace bool, carried ...checks.Registration) {
	defer a.lock()()
	a.services[inst.ID] = inst
	if inst.Kind == catalog.KindConnectProxy {
		alias := "service:" + inst.ID
		a.checks[alias] = &simCheck{Check: catalog.Check{ID: alias, ServiceID: inst.ID, Type: catalog.CheckTypeAlias, Status: "passing"}}
	}
	if replace {
		a.dropChecks(inst.ID, func(id string) bool {
			return slices.ContainsFunc(carried, func(r checks.Registration) bool { return r.CheckID == id })
		})
	}
	for _, r := range carried {
		a.register(r, hand{token: "owner"})
	}
	a.ring()
}

// drop removes an instance and its checks.
func (a *simAgent) drop(id string) {
	defer a.lock()()
	delete(a.services, id)
	a.dropChecks(id, func(string) bool { return false })
	a.ring()
}

func (a *simAgent) dropChecks(service string, keep func(id string) bool) {
	for id, c := range a.checks {
		if c.ServiceID == service && c.Type != catalog.CheckTypeAlias && !keep(id) || a.services[c.ServiceID] == nil && c.ServiceID != "" {
			a.remove(id, hand{})
		}
	}
}

func (a *simAgent) remove(id string, by hand) {
	before := a.checks[id]
	delete(a.checks, id)
	a.happened(event{at: time.Now(), id: id, what: "deregister", before: before, writer: by.daemon, token: by.token})
}

// putCheck makes a check be there, whoever made it, whose TTL does not run out.
func (a *simAgent) putCheck(c catalog.Check) {
	defer a.lock()()
	a.checks[c.ID] = &simCheck{Check: c, made: time.Now()}
}

// register makes a check, or changes all of it but its status and output.
func (a *simAgent) register(r checks.Registration, by hand) {
	c := &simCheck{token: by.token, ttl: r.TTL, ends: time.Now().Add(r.TTL), made: time.Now(), Check: catalog.Check{
		ID: r.CheckID, Name: r.Name, ServiceID: r.ServiceID, Type: catalog.CheckTypeTTL, Status: string(r.Status), Notes: r.Notes,
	}}
	old := a.checks[r.CheckID]
	if old != nil {
		c.Status, c.Output, c.saved = old.Status, old.Output, old.saved
		c.made = old.made
		if !holds(old) {
			c.made = time.Time{} // it was taken over: who knows since when it was whose
		}
	}
	a.checks[r.CheckID] = c
	a.happened(event{at: time.Now(), id: r.CheckID, what: "register", before: old, after: c, writer: by.daemon, token: by.token})
}

// update writes status and output of a TTL check; false if there is none.
func (a *simAgent) update(id, status, output string, by hand) bool {
	c := a.checks[id]
	if c == nil || c.Type != catalog.CheckTypeTTL {
		return false
	}
	before := *c
	c.Status, c.Output, c.last, c.saved = status, output, output, true
	if c.ttl > 0 {
		c.ends = time.Now().Add(c.ttl)
	}
	a.happened(event{at: time.Now(), id: id, what: "update", before: &before, after: c, writer: by.daemon, token: by.token})
	return true
}

// showed takes in that a daemon was shown the checks.
func (a *simAgent) showed(d *simDaemon, token string) {
	defer a.lock()()
	d.reads[token] = true
	if d.sighted.IsZero() {
		d.sighted = time.Now()
	}
	for _, c := range a.checks {
		if c.shown != d && !a.hidden[c.ServiceID] {
			c.shown, c.shownAt = d, time.Now()
		}
	}
}

// restart is what a restart makes of the checks (facts/consul.md 1.3): one that
// was written within its TTL is back with a whole TTL, any other is critical.
func (a *simAgent) restart() {
	defer a.lock()()
	for id, c := range a.checks {
		if c.ttl == 0 {
			continue
		}
		before := *c
		if !c.saved || c.ends.IsZero() {
			c.Status, c.Output = "critical", ""
		}
		c.ends = time.Now().Add(c.ttl)
		a.happened(event{at: time.Now(), id: id, what: "restart", before: &before, after: c})
	}
	a.ring()
}

// wipe forgets everything, as an agent does whose data directory is gone.
func (a *simAgent) wipe() {
	defer a.lock()()
	clear(a.services)
	a.dropChecks("", func(string) bool { return false })
	clear(a.checks)
	a.ring()
}

// note notes a write in the trace.
func (a *simAgent) note(format string, args ...any) {
	a.trace = append(a.trace, fmt.Sprintf("%08.1f ", time.Since(began).Truncate(100*time.Millisecond).Seconds())+fmt.Sprintf(format, args...))
}

// began is when the time of a bubble begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// written is the trace. What is written at one moment, by three workers, is in no
// order: moments are tenths of seconds here, and in order of the text.
func (a *simAgent) written() []string {
	defer a.lock()()
	return slices.Sorted(slices.Values(a.trace))
}
