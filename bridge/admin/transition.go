package admin

import "time"

// History is what GET /v1/transitions shows.
type History struct {
	Schema int `json:"schema"`
	// Transitions are the last ones, the newest first; failures are kept longest.
	Transitions []Transition `json:"transitions"`
}

// Transition is a change of a check's status, as Consul's agent shows it.
type Transition struct {
	// Time is when the agent took it over.
	Time      time.Time `json:"time"`
	CheckID   string    `json:"check_id"`
	ServiceID string    `json:"service_id"`
	// From is empty for a check that was registered.
	From   string `json:"from"`
	To     string `json:"to"`
	Output string `json:"output"`
	// Observer is the node id of the Envoy whose answer led to it; empty if none did.
	Observer string `json:"observer"`
}
