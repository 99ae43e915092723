package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/consul-hds/consul-hds/bridge/admin"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

var (
	errStopping = errors.New("shutting down")
	errUnsynced = errors.New("not synced with the Consul agent yet")
)

// backend is what the admin interface shows of the bridge.
type backend struct{ *Bridge }

// Ready returns nil once the bridge is synced with Consul and listens
// everywhere it should; a sync that is lost later is in the status.
func (b backend) Ready() error {
	if b.stopping.Load() {
		return errStopping
	}
	if b.watcher.Snapshot() == nil {
		if err := b.watcher.Health().Err; err != "" {
			return errors.Join(errUnsynced, errors.New(err))
		}
		return errUnsynced
	}
	return b.server.Ready()
}

// Status describes everything as it is now.
func (b backend) Status() admin.Status {
	h := b.watcher.Health()
	s := admin.Status{
		Version: b.config.Version,
		Consul:  admin.Consul{Address: b.config.Consul.Address, Synced: h.Synced, LastSync: h.LastSync, Error: h.Err},
	}
	for _, o := range b.server.Streams() {
		s.Observers = append(s.Observers, observer(o))
	}
	for _, r := range b.server.Refusals(time.Now()) {
		s.Refused = append(s.Refused, admin.Refused{Reason: r.Reason, Count: r.Count, Last: r.At, Peer: r.Peer, Error: r.Err.Error()})
	}
	b.ring.describe(&s)
	return s
}

func observer(o hds.Stream) admin.Observer {
	return admin.Observer{
		NodeID: o.NodeID, Kind: string(o.Kind), Peer: o.Peer, Envoy: o.Envoy,
		Applied: o.Applied, Probes: o.Probes, LastReport: o.LastReport,
	}
}

// Observer tells what was said last with an Envoy.
func (b backend) Observer(nodeID string) (admin.Exchange, error) {
	e, ok, err := b.server.Exchange(nodeID)
	if !ok {
		return admin.Exchange{}, fmt.Errorf("%w: no Envoy with the node id %.200q has a stream", admin.ErrNotFound, nodeID)
	}
	if err != nil {
		return admin.Exchange{}, err
	}
	out := admin.Exchange{Observer: observer(e.Stream), SpecifierSent: e.Sent}
	if e.Specifier != nil {
		if out.Specifier, err = protojson.Marshal(e.Specifier); err != nil {
			return out, fmt.Errorf("writing the specifier: %w", err)
		}
	}
	if e.Report != nil {
		if out.Report, err = protojson.Marshal(e.Report); err != nil {
			return out, fmt.Errorf("writing the report: %w", err)
		}
	}
	return out, nil
}

// Transitions are the last changes of the checks' statuses. They are those of the
// agent, not of the verdicts: what somebody looks into at night is what Consul
// showed, and since when.
func (b backend) Transitions() []admin.Transition {
	list := b.manager.Transitions()
	out := make([]admin.Transition, len(list))
	for i, t := range list {
		out[i] = admin.Transition{
			Time: t.At, CheckID: t.CheckID, ServiceID: t.ServiceID,
			From: string(t.From), To: string(t.To), Output: t.Output, Observer: t.Observer,
		}
	}
	return out
}

// Configuration is the configuration in force, without secrets.
func (b backend) Configuration() string { return b.ring.configuration() }

// configuration is the settings' text.
func (r *ring) configuration() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings.Text
}

// describe tells of a comparison, if there was any.
func (c comparison) describe() *admin.Shadow {
	if c == (comparison{}) {
		return nil
	}
	return &admin.Shadow{Agreed: c.agreed, Differed: c.differed}
}

// describe adds what the ring knows.
func (r *ring) describe(s *admin.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snap != nil {
		s.Node = r.snap.Node.Name
	}
	states := r.writer.States()
	for _, id := range slices.Sorted(maps.Keys(r.tracked)) {
		t, state := r.tracked[id], states[id]
		c := admin.Check{
			CheckID: id, Service: t.probe.Service, ServiceID: t.probe.ServiceID, Probe: t.probe.Name,
			Kind: string(t.probe.Settings.Kind), Target: t.probe.Target.String(), Mode: string(cmp.Or(t.probe.Settings.Mode, probe.Enforce)),
			Phase: string(t.verdict.Phase), Observers: slices.Compact(slices.Sorted(slices.Values(t.observers))),
			Maintenance: r.snap.Maintenance(t.probe.ServiceID),
		}
		if t.probe.Settings.Mode == probe.Shadow {
			state.Status, state.Output = t.verdict.Status, t.verdict.Output // what it would be
			c.Shadow = t.shadow.describe()
		}
		if state.Status != health.None {
			c.Status, c.Output, c.Since = string(state.Status), state.Output, t.verdict.Since
		}
		s.Checks = append(s.Checks, c)
	}
	for _, p := range slices.SortedFunc(maps.Keys(r.problems), compareProblems) {
		s.Problems = append(s.Problems, admin.Problem{ServiceID: p.ServiceID, Source: p.Source, Message: p.Message})
	}
}
