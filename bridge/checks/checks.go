// Package checks keeps the TTL checks of the local Consul agent in step with
// what they are wanted to show: it registers, updates, refreshes, restores and
// removes them. It holds state, not events: for each check the newest want
// counts, and nothing queues behind a slow agent but the check's id.
package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Mark begins the notes of every check of ours; what does not carry it is not
// ours and is never touched.
const Mark = "consul-hds:"

// notes say who writes a check, and what its bare states mean: the catalog shows
// a new output minutes after the agent does (facts/consul.md 1.2).
const notes = Mark + " this status is written by consul-hds from what Envoy reports by its Health Discovery Service. " +
	"Critical without output: no Envoy has answered yet. \"TTL expired\": no Envoy has answered for too long, or consul-hds is not running."

// healedNotes are the notes of a check that was registered again for the servers
// to hear of it. An agent with a data directory takes a check that is registered
// as it stands for the one that it has, believes it to be in sync, and tells its
// servers nothing until its next full sync: something must differ.
const healedNotes = notes + " It was registered again, because the catalog did not follow."

// Ours says whether a check of the agent was made by consul-hds, this one or an
// earlier one, or was put into a registration for it.
func Ours(c *catalog.Check) bool {
	return c.Type == catalog.CheckTypeTTL && strings.HasPrefix(c.Notes, Mark) && c.ServiceID != "" && hasOurID(c)
}

// hasOurID says whether the check's id is one that probes of its service have. An
// id that no probe may have is nobody's of ours, whatever it looks like: Consul's
// API cleans paths, and a write to "hds:a//b" reaches "hds:a/b" (facts/consul.md 0.12).
func hasOurID(c *catalog.Check) bool {
	head, ok := strings.CutSuffix(c.ID, ":"+c.ServiceID)
	if !ok || probe.CheckServiceID(c.ServiceID) != nil {
		return false
	}
	name, named := strings.CutPrefix(head, probe.Prefix+".")
	return head == probe.Prefix || named && probe.CheckName(name) == nil
}

// Want is what a check should be.
type Want struct {
	CheckID   string
	ServiceID string
	// Service is the name of the instance's service; empty if it is not known.
	Service string
	// Name is the check's title.
	Name string
	// Status None wants no check to be registered yet; one that exists is left as
	// it is.
	Status health.Status
	Output string
	// Observer is the node id of the Envoy whose answer Output tells of; empty if it
	// tells of none.
	Observer string
	// Alive says that the check is to be refreshed; otherwise its TTL runs out.
	Alive bool
	// Lapsed is since when it is not alive, if it is not; zero is since Set says so.
	Lapsed time.Time
	// ReportedAt is when the report came that Status follows from; zero if none
	// did.
	ReportedAt time.Time
	// Phase is for the log alone.
	Phase string
}

// Agent is the part of the Consul agent's API that checks are written by. An
// error is ErrUnknown if the agent knows no such TTL check or service, ErrAway
// if it could not be reached or did not answer before the context ended,
// ErrDenied if the token may not do this, and ErrUnsaved if an update was taken
// over all the same. What else an agent has to do is tried by checkstest.Contract.
type Agent interface {
	Register(ctx context.Context, r Registration) error
	Update(ctx context.Context, checkID string, status health.Status, output string) error
	Deregister(ctx context.Context, checkID string) error
}

// Registration is a check as it is registered.
type Registration struct {
	CheckID   string
	ServiceID string
	Name      string
	Notes     string
	TTL       time.Duration
	Status    health.Status
}

// What an Agent's errors can be told apart by.
var (
	ErrUnknown = errors.New("the agent does not know it")
	ErrAway    = errors.New("the agent cannot be reached")
	ErrDenied  = errors.New("permission denied")
	// ErrUnsaved is that of an update that the agent has taken over, with a TTL that
	// begins anew, but cannot write to its disk, which is full or fails. It answers
	// 500 to every update until it can.
	ErrUnsaved = errors.New("the agent took it over, and cannot save it")
	// ErrTokenUnknown is an ErrDenied: Consul does not know the token at all.
	ErrTokenUnknown = fmt.Errorf("%w: Consul does not know the token", ErrDenied)
)

// Metrics is what the manager tells of itself.
type Metrics interface {
	// CheckWrite counts a write, which took d: register, update or deregister,
	// and how it ended: ok, gone, denied, away or error.
	CheckWrite(op, result string, d time.Duration)
	// Refreshed counts an update that only kept a check alive.
	Refreshed()
	// Transition counts a status that the agent took over.
	Transition(status string)
	// WriteDelay is the time from the report of a change to the agent's answer.
	WriteDelay(d time.Duration)
	// CheckLost counts a check that vanished from the agent while it was wanted.
	CheckLost()
}

// Config is what a manager needs.
type Config struct {
	Agent Agent
	// TTL is the TTL of every check; it is refreshed three times in it.
	TTL time.Duration
	// OrphanGrace is how long a check of ours that nobody wants is kept alive.
	OrphanGrace time.Duration
	// Bind binds the context of a write to the token of the moment at which it is decided:
	// what is decided before Hold must not be written with the token that comes after. It
	// must not block; nil binds nothing.
	Bind func(context.Context) context.Context
	// ReadAgain asks for a new snapshot soon. It must not block.
	ReadAgain func()
	Logger    hclog.Logger
	Metrics   Metrics
	// Draw draws the random part of a pause, from 0 to below n; nil draws by chance.
	// It is for tests that have to be the same twice.
	Draw func(n time.Duration) time.Duration
}

// State is what is known of a check.
type State struct {
	ServiceID string
	// Status and Output are what the agent shows; None if there is no check.
	Status health.Status
	Output string
	// Foreign says that the check's id belongs to a check of somebody else's.
	Foreign bool
	// Orphan says that nobody wants the check.
	Orphan bool
	// Err is why the last write failed, if it did.
	Err error
	// Wrote names the last write that the agent acknowledged: register, update,
	// refresh or deregister; empty if there was none. WroteAt is when.
	Wrote   string
	WroteAt time.Time
}
