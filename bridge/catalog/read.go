package catalog

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/logging"
)

const (
	// listTimeout bounds the question for each of the two lists. Together they may
	// take longer: an agent that needs five seconds for each is slow, not away.
	listTimeout = 10 * time.Second
	// maxConfirmations bounds the questions after missing instances in one read.
	maxConfirmations = 64
	// confirmers is how many of them are open at once.
	confirmers = 3
	// forbiddenPause is how long an instance that the token may not read is kept
	// without a further question: the agent logs an error for each refusal.
	forbiddenPause = 30 * time.Second
	// secondLook is how long an instance has to be unknown to be gone: while an agent
	// with 1,500 services reloads its configuration, it knows none of those in it for
	// up to 200 ms.
	secondLook = 500 * time.Millisecond
	// sideTimeout bounds what a snapshot can do without: a question that hangs
	// must not keep the lists from being published.
	sideTimeout = 2 * time.Second
)

// readOnce reads a snapshot and publishes it, or says why there is none.
func (w *Watcher) readOnce(ctx context.Context) error {
	start := time.Now()
	snapshot, err := w.read(ctx, start)
	if ctx.Err() != nil {
		return ctx.Err() // shutting down: nobody's failure
	}
	if err != nil {
		w.fail(err)
	} else {
		w.publish(snapshot)
	}
	w.metrics.SnapshotRead(time.Since(start), err)
	return err
}

// read asks for services first and for checks second. In this order every
// instance of the snapshot has the checks that came with its registration: read
// the other way round, a service registered between the two would seem to have
// lost the check that it carries. What remains, checks of services that are newer
// than the list of services, is told by their service id and left out.
func (w *Watcher) read(ctx context.Context, start time.Time) (*Snapshot, error) {
	instances, err := w.services(ctx)
	if err != nil {
		return nil, err
	}
	checks, node, err := w.checks(ctx)
	if err != nil {
		return nil, err
	}
	unconfirmed := w.keepUnconfirmed(ctx, instances)
	w.identify(ctx, node)
	dropDangling(checks, instances)
	return &Snapshot{Node: w.nodeNow(), Instances: instances, Checks: checks, Unconfirmed: unconfirmed, ReadAt: start}, nil
}

func (w *Watcher) services(ctx context.Context) (map[string]*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	instances, err := w.agent.services(ctx)
	return instances, cmp.Or(err, ctx.Err()) // late: it may be older than what others know by now
}

func (w *Watcher) checks(ctx context.Context) (checks map[string]*Check, node string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	checks, node, err = w.agent.checks(ctx)
	return checks, node, cmp.Or(err, ctx.Err())
}

func dropDangling(checks map[string]*Check, instances map[string]*Instance) {
	maps.DeleteFunc(checks, func(_ string, c *Check) bool {
		return c.ServiceID != "" && instances[c.ServiceID] == nil
	})
}

// keepUnconfirmed puts the instances of the last snapshot that are not in this
// list back into it, unless the agent confirms that they are gone. An answer
// that was filtered by ACLs is a shorter list and no error, and under least
// privilege every list is marked as filtered (facts/consul.md 0.11).
func (w *Watcher) keepUnconfirmed(ctx context.Context, instances map[string]*Instance) (kept map[string]bool) {
	missing := make(map[string]*missingInstance)
	for id, old := range w.previous().Instances {
		if instances[id] != nil {
			continue
		}
		m := w.missing[id]
		if m == nil {
			m = &missingInstance{}
		}
		m.Instance = old
		missing[id] = m
	}
	w.missing = missing
	w.confirm(ctx)
	kept = map[string]bool{}
	for id, m := range missing {
		if !m.gone {
			instances[id], kept[id] = m.Instance, true
		}
	}
	return kept
}

// missingInstance is an instance that was in the last snapshot and is not in the
// agent's list any more.
type missingInstance struct {
	*Instance
	unaskable bool      // and was missing in the list before
	askAgain  time.Time // not before then
	// denied is when the agent said first that it does not know the instance.
	denied time.Time
	gone   bool
}

// confirm asks for each of the missing. Their order is that of a map, thus
// another one in each read: what is beyond the bound has its turn later.
func (w *Watcher) confirm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	slots := make(chan struct{}, confirmers)
	asked := 0
	var group sync.WaitGroup
	for _, id := range w.mostAskedFirst() {
		m := w.missing[id]
		switch {
		case !askable(id):
			// Where the agent cannot be asked, two lists in a row have to do.
			m.gone, m.unaskable = m.unaskable, true
		case !m.denied.IsZero() && time.Since(m.denied) < secondLook: // it is not due yet
		case asked < maxConfirmations && !time.Now().Before(m.askAgain):
			asked++
			slots <- struct{}{}
			group.Go(func() {
				w.confirmOne(ctx, m)
				<-slots
			})
		}
	}
	group.Wait()
}

// mostAskedFirst lists the missing, those first that were unknown once already:
// each read ends some, instead of beginning more.
func (w *Watcher) mostAskedFirst() []string {
	var denied, rest []string
	for id, m := range w.missing {
		if m.denied.IsZero() {
			rest = append(rest, id)
		} else {
			denied = append(denied, id)
		}
	}
	return append(denied, rest...)
}

// confirmOne asks for one instance. It is gone when the agent has said so twice:
// while an agent reloads its configuration it knows none of the services in it for
// some milliseconds.
func (w *Watcher) confirmOne(ctx context.Context, m *missingInstance) {
	gone, err := w.agent.gone(ctx, m.ID)
	switch now := time.Now(); {
	case !gone || err != nil:
		m.denied = time.Time{}
	case m.denied.IsZero():
		m.denied = now
		time.AfterFunc(secondLook, w.Refresh)
	default:
		m.gone = true
	}
	if isStatus(err, http.StatusForbidden) {
		m.askAgain = time.Now().Add(forbiddenPause)
	}
	if err != nil {
		w.log.Debug("instance is not listed, but may be there: kept", "service_id", m.ID, "error", err)
	}
}

// previous returns the newest snapshot, an empty one before the first.
func (w *Watcher) previous() *Snapshot {
	if s := w.Snapshot(); s != nil {
		return s
	}
	return &Snapshot{}
}

func (w *Watcher) publish(s *Snapshot) {
	w.number(s)
	w.mu.Lock()
	recovered := !w.health.Synced
	w.snapshot = s
	w.health.Synced, w.health.LastSync, w.health.Err, w.health.TokenUnknown = true, s.ReadAt, "", false
	w.mu.Unlock()
	now := time.Now()
	if recovered {
		w.lines.Log(now, hclog.Info, "synced", "synced with the Consul agent", logging.Known("node", s.Node.Name, "instances", len(s.Instances))...)
	}
	w.log.Trace("read the Consul agent", "instances", len(s.Instances), "checks", len(s.Checks), "revision", s.Revision)
	w.sayDoorbell(now)
	w.metrics.Instances(len(s.Instances))
	poke(w.updates)
}

// number gives s its revision. It compares content: no answer of the agent has
// an index that could be trusted for it.
func (w *Watcher) number(s *Snapshot) {
	old := w.previous()
	s.Revision = old.Revision
	instances, checks := keep(s.Instances, old.Instances), keep(s.Checks, old.Checks)
	if old.Revision > 0 && s.Node == old.Node && instances && checks {
		s.Instances, s.Checks = old.Instances, old.Checks
	} else {
		s.Revision++
	}
}

// keep puts into a map the very values of the old one that have not changed, and
// says whether nothing has.
func keep[T any](now, old map[string]*T) (same bool) {
	same = len(now) == len(old)
	for id, v := range now {
		if was := old[id]; was != nil && (was == v || reflect.DeepEqual(was, v)) {
			now[id] = was
		} else {
			same = false
		}
	}
	return same
}

func (w *Watcher) fail(err error) {
	w.self = nil // the agent may come back under another name or address
	w.mu.Lock()
	w.health.Synced, w.health.Err, w.health.TokenUnknown = false, err.Error(), tokenUnknown(err)
	w.mu.Unlock()
	w.lines.Log(time.Now(), hclog.Warn, "read", "cannot read the Consul agent, its last state stands", "error", err)
}
