// Package health folds what Envoys say of a probe into the verdict that its
// Consul check should show. It is pure: time is passed in, nothing is read or
// written, and it knows neither Consul nor Envoy nor gRPC.
//
// The rules are those of the design, part 4. In short: good news counts at
// once; bad news of an endpoint that was never healthy on its stream counts
// only when enough reports have come for the first probe to be over; silence
// leaves everything as it is until it makes the probe stale.
package health

import "time"

// Status is the status of a Consul check; None is that of a check that is not
// to be registered yet.
type Status string

// The statuses, as Consul spells them.
const (
	None     Status = ""
	Passing  Status = "passing"
	Warning  Status = "warning"
	Critical Status = "critical"
)

// Worse says whether s is worse than o; None is better than all.
func (s Status) Worse(o Status) bool {
	rank := map[Status]int{None: 0, Passing: 1, Warning: 2, Critical: 3}
	return rank[s] > rank[o]
}

// Word is the status in one word, also for None: as logs spell it.
func (s Status) Word() string {
	if s == None {
		return "none"
	}
	return string(s)
}

// Answer is what an Envoy's report says of an endpoint.
type Answer int

// The answers. NoAnswer stands for silence and for every status that says
// nothing of the endpoint.
const (
	NoAnswer Answer = iota
	Healthy
	Degraded
	Unhealthy
	Timeout
)

// String is the answer as outputs and logs spell it.
func (a Answer) String() string {
	return [...]string{"no answer", "healthy", "degraded", "unhealthy", "timeout"}[a]
}

// Phase is how far a probe has come.
type Phase string

// The phases. Pending: nobody has answered yet. Adopted: the check stands as it
// was found while an answer is awaited. Reported: the check says what the
// observers say. Stale: the last answer is too old.
const (
	Pending  Phase = "pending"
	Adopted  Phase = "adopted"
	Reported Phase = "reported"
	Stale    Phase = "stale"
)

// OnStale says what becomes of the check of a stale probe.
type OnStale string

// The choices for stale probes: let Consul's TTL expire, write critical at
// once, or go on refreshing the last status.
const (
	Expire       OnStale = "expire"
	TurnCritical OnStale = "critical"
	Keep         OnStale = "keep"
)

// Policy is what the config says of verdicts.
type Policy struct {
	// ReportInterval is the pause between two reports of an Envoy.
	ReportInterval time.Duration
	// StaleAfter is how long a reported probe may go without an answer.
	StaleAfter time.Duration
	// AdoptTimeout is how long a check may wait for an answer as it stands.
	AdoptTimeout time.Duration
	OnStale      OnStale
	// InitialStatus is that of an instance that appears; None registers no check
	// before the first answer.
	InitialStatus Status
}

// Definition is what health has to know of a probe.
type Definition struct {
	// Subject says what is probed; it begins every output.
	Subject string
	// Grace is the longest time from an endpoint's creation to the end of the
	// probe that decides its state; the adoption deadline leaves room for it.
	Grace time.Duration
	// Recovery is the longest time that an endpoint takes from its first good
	// probe to being healthy.
	Recovery time.Duration
	// Expects says whether a probe is content with an HTTP status code. It is nil
	// for probes whose answers have none.
	Expects func(code int) bool
	// Warns says that HTTP 429 is a warning.
	Warns bool
	// Confirm is how long an answer that is bad by its content alone has to stay:
	// Envoy counts no threshold for these. Zero takes it at its word.
	Confirm time.Duration
}

// Observation is what one observer's stream has said of a probe so far.
type Observation struct {
	// Observer is the Envoy's node id.
	Observer string
	// Stream tells streams apart: a newer stream has a higher number.
	Stream uint64
	// Answer is the last answer, NoAnswer before the first.
	Answer Answer
	// Code is the HTTP status code that came with the answer; 0 when there was
	// none, or it cannot be trusted.
	Code int
	// Reports is how many reports came after the first that echoed the probe; the
	// first echo is report 0. Quiet is how many of them may hold bad news of an
	// endpoint that was never healthy before it counts: the definition's grace in
	// reports of this stream.
	Reports, Quiet int
	// WasHealthy says that the endpoint has been healthy on this stream.
	WasHealthy bool
	// At is when the last report came that held an answer.
	At time.Time
}

// Verdict is what a probe's Consul check should be.
type Verdict struct {
	Phase  Phase
	Status Status
	Output string
	// Observer is the node id of the Envoy whose answer Output tells of; empty if it
	// tells of none.
	Observer string
	// Since is when Status last changed.
	Since time.Time
	// Alive says that the check is to be refreshed before its TTL runs out. A
	// check that is not alive is left to expire, Lapsed is since when.
	Alive  bool
	Lapsed time.Time
	// Overdue says that no answer has come in the time there was for it. A probe
	// without a check stays pending all the same.
	Overdue bool
}

// Counts says whether the observation's answer counts yet. Envoy says UNHEALTHY
// before its first probe has ended, and after one failure whatever the
// threshold (facts/envoy-hds.md 0.15, 0c); its own reports are the clock.
func (o Observation) Counts() bool {
	switch o.Answer {
	case NoAnswer:
		return false
	case Healthy, Degraded:
		return true
	}
	return o.WasHealthy || o.Reports > o.Quiet
}
