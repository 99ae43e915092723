package standin

import (
	"time"

	"github.com/hashicorp/consul/api"
)

// check is a check, and when its TTL runs out.
type check struct {
	api.AgentCheck
	// ttl is zero for other types.
	ttl time.Duration
	// ends is when the TTL runs out; zero is never.
	ends time.Time
	// last is the output that was written since the check was registered.
	last string
}

// shown is the check as it is now: where its TTL has run out, it says so.
func (c *check) shown(now time.Time) *api.AgentCheck {
	if !c.ends.IsZero() && !now.Before(c.ends) {
		c.Status, c.Output, c.ends = api.HealthCritical, "TTL expired", time.Time{}
		if c.last != "" {
			c.Output += " (last output before timeout follows): " + c.last
		}
	}
	return &c.AgentCheck
}

// newCheck is a check as its first registration makes it.
func newCheck(r *api.AgentCheckRegistration, service string) (*check, error) {
	c := &check{AgentCheck: api.AgentCheck{
		Node: Node, CheckID: r.ID, Name: r.Name, Notes: r.Notes, ServiceID: r.ServiceID, ServiceName: service, Type: "http", Status: r.Status,
	}}
	if c.Status == "" {
		c.Status = api.HealthCritical
	}
	if r.AliasService != "" {
		c.Type = "alias"
	}
	if r.TTL == "" {
		return c, nil
	}
	ttl, err := time.ParseDuration(r.TTL)
	c.Type, c.ttl, c.ends = "ttl", ttl, time.Now().Add(ttl)
	return c, err
}

// registerCheck makes a check, or changes all of it but its status and output. The
// agent is locked.
func (a *Agent) registerCheck(r *api.AgentCheckRegistration) error {
	service := a.services[r.ServiceID]
	if service == nil {
		return errNoService
	}
	c, err := newCheck(r, service.Service)
	if err != nil {
		return err
	}
	if old := a.checks[r.ID]; old != nil {
		shown := old.shown(time.Now())
		c.Status, c.Output = shown.Status, shown.Output
	}
	a.checks[r.ID] = c
	return nil
}

func (a *Agent) updateCheck(id, status, output string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.checks[id]
	switch {
	case c == nil:
		return errNoCheck
	case c.ttl == 0:
		return errNoTTL
	}
	c.Status, c.Output, c.last, c.ends = status, output, output, time.Now().Add(c.ttl)
	return nil
}

func (a *Agent) deregisterCheck(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.checks[id] == nil {
		return errNoCheck
	}
	delete(a.checks, id)
	return nil
}
