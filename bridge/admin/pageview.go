package admin

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// filter is what the address of the overview asks for, in the words of the flags
// of the command status. Links keep it, and so does the browser when it loads the
// page again.
type filter struct {
	Filter
	paused bool
}

func filterOf(q url.Values) filter {
	return filter{Filter{Service: q.Get("service"), Status: q.Get("status")}, q.Get("refresh") == "0"}
}

// href is the address of the overview with this filter.
func (f filter) href() string {
	q := url.Values{}
	if f.Service != "" {
		q.Set("service", f.Service)
	}
	if f.Status != "" {
		q.Set("status", f.Status)
	}
	if f.paused {
		q.Set("refresh", "0")
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

// overview is the body of the page at /.
type overview struct {
	// Unready says what is missing for the daemon to be ready; empty if it is.
	Unready string
	// Counts are the numbers of checks by status, each with a link that shows only
	// these, or all again.
	Counts []count
	// Checks are those of the filter, the worst first; Total are all of the daemon.
	Checks []checkRow
	Total  int
	// Problems are those of the service.
	Problems []problemRow
	// Service is the filter's; AnyService leads back to all.
	Service, AnyService string
	Transitions         []transitionRow
	// Toggle is the address of the page that goes on to refresh itself, or pauses.
	Toggle string
	// Late are the observers that have not applied what they were sent.
	Late int
}

type count struct {
	Status, Href string
	N            int
	Chosen       bool
}

// checkRow is a check in a list.
type checkRow struct {
	Check
	// Href leads to the explanation, ServiceHref to the checks of the service.
	Href, ServiceHref string
}

// problemRow is a problem in a list; Href leads to the explanation of its instance.
type problemRow struct {
	Problem
	Href string
}

// transitionRow is a transition in a list.
type transitionRow struct {
	Transition
	Href string
}

func newOverview(s Status, history []Transition, f filter, unready error) overview {
	all, other := f, f
	all.Service, other.paused = "", !f.paused
	o := overview{
		Checks: checkRows(s, f), Total: len(s.Checks), Counts: counts(s.Checks, f), Problems: problemRows(f.Problems(s)),
		Service: f.Service, AnyService: all.href(), Toggle: other.href(), Transitions: transitionRows(history),
	}
	if unready != nil {
		o.Unready = unready.Error()
	}
	for _, e := range s.Observers {
		if !e.Applied {
			o.Late++
		}
	}
	return o
}

// checkRows are the checks of a filter, the worst first.
func checkRows(s Status, f filter) (out []checkRow) {
	for _, c := range f.Checks(s) {
		one := f
		one.Service = c.Service
		out = append(out, checkRow{Check: c, Href: explainHref(c.CheckID), ServiceHref: one.href()})
	}
	slices.SortStableFunc(out, func(a, b checkRow) int { return cmp.Compare(rank(a.Check), rank(b.Check)) })
	return out
}

// statuses are those of checks, the worst first.
func statuses() []string { return []string{"critical", "warning", none, "passing"} }

// rank orders checks: the worst status first, and of one status what is stale.
func rank(c Check) int {
	r := 2 * slices.Index(statuses(), c.StatusWord())
	if c.Phase != "stale" {
		r++
	}
	return r
}

// counts are those of the checks of the filter's service.
func counts(checks []Check, f filter) (out []count) {
	numbers := map[string]int{}
	for _, c := range checks {
		if f.serves(c) {
			numbers[c.StatusWord()]++
		}
	}
	for _, status := range statuses() {
		one := f
		one.Status = status
		if f.Status == status {
			one.Status = ""
		}
		out = append(out, count{Status: status, Href: one.href(), N: numbers[status], Chosen: f.Status == status})
	}
	return out
}

// explained is the body of the page that explains an instance or a check.
type explained struct {
	Explanation
	Checks      []explainedRow
	Problems    []problemRow
	Transitions []transitionRow
}

// explainedRow is an explained check with its status, as the overview shows it.
type explainedRow struct {
	ExplainedCheck
	Status string
}

func newExplained(e Explanation, s Status, history []Transition) explained {
	out := explained{Explanation: e, Problems: problemRows(e.Problems)}
	ids := map[string]bool{}
	for _, c := range e.Checks {
		row := explainedRow{ExplainedCheck: c}
		if i := slices.IndexFunc(s.Checks, func(o Check) bool { return o.CheckID == c.CheckID }); i >= 0 {
			row.Status = s.Checks[i].Status
		}
		out.Checks = append(out.Checks, row)
		ids[c.CheckID] = true
	}
	out.Transitions = transitionRows(slices.DeleteFunc(slices.Clone(history), func(t Transition) bool {
		return !ids[t.CheckID] && t.ServiceID != e.ID
	}))
	return out
}

func problemRows(problems []Problem) (out []problemRow) {
	for _, p := range problems {
		out = append(out, problemRow{Problem: p, Href: explainHref(p.ServiceID)})
	}
	return out
}

func transitionRows(history []Transition) (out []transitionRow) {
	for _, t := range history {
		out = append(out, transitionRow{Transition: t, Href: explainHref(t.CheckID)})
	}
	return out
}

// explainHref is the address of the page that explains an id. A template would
// leave a slash or a question mark in it as it is.
func explainHref(id string) string { return "/explain/" + url.PathEscape(id) }

// ObserverHref is the address of what was said last with an Envoy, as JSON.
func (page) ObserverHref(nodeID string) string { return "/v1/observers/" + url.PathEscape(nodeID) }

// Stamp is a time for machines.
func (page) Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Clock is a time for people.
func (page) Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// Age says how long ago t was, in its largest unit: "12 s", "3 min", "5 h" or
// "2 d", on one line. What is yet to come, by a clock that was set, is "0 s".
func (p page) Age(t time.Time) string { return age(p.Now.Sub(t)) }

func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d\u00a0min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d\u00a0h", d/time.Hour)
	}
	return fmt.Sprintf("%d\u00a0d", d/(24*time.Hour))
}
