package bridge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// conclusion is why the check is what it is, in one sentence, and what else keeps
// the instance out or the check from following, if anything does.
func (e explainer) conclusion() string {
	out := e.cause()
	if e.state.Err != nil && e.state.Status == e.verdict.Status {
		out += fmt.Sprintf(" It cannot be refreshed: %s.", refusal(e.state.Err))
	}
	if m := e.snap.Maintenance(e.probe.ServiceID); m != "" {
		out += fmt.Sprintf(" The %s is in maintenance mode: Consul keeps the instance out, whatever this check says.", m)
	}
	return out
}

// cause is why the check is what it is, in one sentence.
func (e explainer) cause() string {
	id, status := e.probe.CheckID, e.state.Status
	switch {
	case e.state.Foreign:
		return fmt.Sprintf("%s is not ours: somebody else's check has this id, and is left alone.", id)
	case e.probe.Settings.Mode == probe.Shadow:
		return fmt.Sprintf("%s would be %s in mode \"enforce\": %s.", id, cmp.Or(string(e.verdict.Status), "without a status"), e.why())
	case status == health.None:
		return fmt.Sprintf("%s is not registered yet: %s.", id, e.why())
	case status != e.verdict.Status && e.verdict.Phase == health.Stale && !e.verdict.Alive:
		return fmt.Sprintf("%s is %s, because nothing refreshes it any more: %s.", id, status, e.why())
	case status != e.verdict.Status && e.state.Err != nil:
		return fmt.Sprintf("%s is %s, and should be %s, but the agent does not take it: %s.", id, status, e.verdict.Status, refusal(e.state.Err))
	case status != e.verdict.Status:
		return fmt.Sprintf("%s is %s, and about to be %s: %s.", id, status, cmp.Or(string(e.verdict.Status), "left to expire"), e.why())
	}
	if shown, ok := e.catalog.statuses[id]; e.catalog.err == nil && (!ok || shown != status) {
		return fmt.Sprintf("%s is %s for the agent, but the catalog, which routing goes by, shows %s: %s.", id, status, cmp.Or(string(shown), "no such check"), e.why())
	}
	return fmt.Sprintf("%s is %s since %s: %s.", id, status, e.verdict.Since.UTC().Format(time.RFC3339), e.why())
}

// why is the cause in words: what the Envoy said, or the rule where it is silent.
func (e explainer) why() string {
	switch {
	case e.verdict.Phase == health.Reported && e.verdict.Output != "":
		return e.verdict.Output
	case len(e.views) == 0:
		return fmt.Sprintf("%s, and %s", e.tracker.Explain(e.now, nil), absent(e.probe))
	}
	return e.tracker.Explain(e.now, e.said())
}
