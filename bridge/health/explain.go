package health

import (
	"fmt"
	"time"
)

// Explain says in words by which rule the verdict came to be, for people. It
// changes nothing; now and observations are those of the last Evaluate.
func (t *Tracker) Explain(now time.Time, observations []Observation) string {
	switch t.phase() {
	case Stale:
		return fmt.Sprintf("stale since %s: no answer for so long (stale_after %s, or adopt_timeout %s after a restart); on_stale = %q %s",
			clock(t.staleSince), t.policy.StaleAfter, t.policy.AdoptTimeout, t.policy.OnStale, t.policy.OnStale.meaning())
	case Pending:
		if t.stale {
			return "no answer has come in time, and silence makes no check where there is none"
		}
		if t.status == None {
			return "the instance was there before its probe: it has no check until the first answer that counts"
		}
		return fmt.Sprintf("the instance has appeared, and shows its initial status until the first answer that counts (initial_status = %q)", t.policy.InitialStatus)
	case Adopted:
		return fmt.Sprintf("the check stands as it was found, or as it was before a new stream or definition, until an answer counts, until %s at the latest", clock(t.deadline()))
	}
	return t.explainReported(now, observations)
}

func (t *Tracker) explainReported(now time.Time, observations []Observation) string {
	fresh := t.fresh(now, observations)
	if len(fresh) == 0 {
		return fmt.Sprintf("the last answer stands; without a new one the probe is stale at %s", clock(t.deadline()))
	}
	if end := t.held.Add(t.hold()); !t.held.IsZero() && now.Before(end) {
		return fmt.Sprintf("unhealthy with an expected status code: the status stands until %s, while this may be recovery or a single bad answer", clock(end))
	}
	if len(fresh) > 1 {
		return fmt.Sprintf("the worst of what %d observers say", len(fresh))
	}
	return "the observer's answer counts at once"
}

// meaning completes "on_stale = …".
func (o OnStale) meaning() string {
	switch o {
	case TurnCritical:
		return "makes it critical at once"
	case Keep:
		return "goes on refreshing its last status"
	}
	return "stops refreshing it, so that its TTL makes it critical"
}

// Explain says in words whether the observation counts under a policy, and if
// not, why.
func (o Observation) Explain(now time.Time, p Policy) string {
	switch {
	case o.Answer == NoAnswer && o.At.IsZero():
		return "no answer yet"
	case !o.Counts():
		return fmt.Sprintf("does not count yet: bad news of an endpoint that was never healthy on this stream counts from report %d on, this is report %d", o.Quiet+1, o.Reports)
	case !now.Before(o.At.Add(p.StaleAfter)):
		return fmt.Sprintf("too old to count (stale_after %s)", p.StaleAfter)
	}
	return "counts"
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
