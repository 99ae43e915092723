package admin

import "time"

// Schema is the version of the status document's form.
const Schema = 1

// Status is what GET /v1/status shows. Whoever makes one leaves Schema to the
// server, sorts the lists, and may leave them nil: they are shown as empty.
type Status struct {
	Schema    int        `json:"schema"`
	Version   string     `json:"version"`
	Node      string     `json:"node"`
	Consul    Consul     `json:"consul"`
	Observers []Observer `json:"observers"`
	// Refused is left out while nobody is.
	Refused  []Refused `json:"refused,omitempty"`
	Checks   []Check   `json:"checks"`
	Problems []Problem `json:"problems"`
}

// Consul is the state of the connection to the local agent.
type Consul struct {
	Address string `json:"address"`
	Synced  bool   `json:"synced"`
	// LastSync is left out before the first.
	LastSync time.Time `json:"last_sync,omitzero"`
	Error    string    `json:"error"`
}

// Observer is an Envoy with an open stream.
type Observer struct {
	NodeID string `json:"node_id"`
	// Kind is sidecar, node or unknown.
	Kind    string `json:"kind"`
	Peer    string `json:"peer"`
	Envoy   string `json:"envoy"`
	Applied bool   `json:"applied"`
	Probes  int    `json:"probes"`
	// LastReport is left out before the first.
	LastReport time.Time `json:"last_report,omitzero"`
}

// Refused is the newest refusal of one reason in the last five minutes.
type Refused struct {
	// Reason is that of consul_hds_streams_refused_total.
	Reason string `json:"reason"`
	// Count is of this reason since the daemon's start.
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Peer  string    `json:"peer"`
	Error string    `json:"error"`
}

// Check is one probe and its Consul check.
type Check struct {
	CheckID   string `json:"check_id"`
	Service   string `json:"service"`
	ServiceID string `json:"service_id"`
	Probe     string `json:"probe"`
	Kind      string `json:"kind"`
	Target    string `json:"target"`
	Mode      string `json:"mode"`
	// Phase is pending, adopted, reported or stale.
	Phase string `json:"phase"`
	// Status is passing, warning or critical; empty while there is no check.
	Status string `json:"status"`
	Output string `json:"output"`
	// Since is when Status came to be; left out while there is no check.
	Since     time.Time `json:"since,omitzero"`
	Observers []string  `json:"observers"`
	// Maintenance is "service" or "node" while Consul's maintenance mode keeps the
	// instance out, whatever Status says; else left out.
	Maintenance string `json:"maintenance,omitempty"`
	// Shadow is for a check in shadow mode whose instance has checks of others; else
	// left out.
	Shadow *Shadow `json:"shadow,omitempty"`
}

// Shadow counts, once a second since the daemon's start or the probe's last
// change, whether Status was the worst status of Consul's own checks.
type Shadow struct {
	Agreed   int `json:"agreed"`
	Differed int `json:"differed"`
}

// Problem is something that the operator should mend.
type Problem struct {
	ServiceID string `json:"service_id"`
	// Source is meta, config, consul or envoy.
	Source  string `json:"source"`
	Message string `json:"message"`
}

// finished returns s as it is shown: with its schema, and no list null. It
// changes nothing that the maker of s may still hold.
func (s Status) finished() Status {
	s.Schema = Schema
	s.Observers = listed(s.Observers)
	s.Problems = listed(s.Problems)
	checks := make([]Check, len(s.Checks))
	for i, c := range s.Checks {
		c.Observers = listed(c.Observers)
		checks[i] = c
	}
	s.Checks = checks
	return s
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
