package admin

import (
	"encoding/json"
	"time"
)

// Explanation is what GET /v1/explain/<service id or check id> shows: why the
// checks of an instance are what they are, or why it has none.
type Explanation struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"`
	// Checks are those of the instance, in order; none if it is not probed.
	Checks []ExplainedCheck `json:"checks"`
	// Problems are those of the instance.
	Problems []Problem `json:"problems"`
	// Conclusion is one sentence on an instance without checks; else empty.
	Conclusion string `json:"conclusion,omitempty"`
}

// ExplainedCheck is a check with the chain of causes that leads to its status.
type ExplainedCheck struct {
	CheckID string `json:"check_id"`
	// Chain runs from the registration to the catalog.
	Chain []Link `json:"chain"`
	// Conclusion is one sentence: why the check is what it is.
	Conclusion string `json:"conclusion"`
}

// Link is one link of the chain.
type Link struct {
	// Name is registration, opt-in, probe, observer, specifier, report, verdict,
	// write or catalog.
	Name string `json:"name"`
	// Time is of when it is; left out where there is none.
	Time time.Time `json:"time,omitzero"`
	// Source is who says so.
	Source string `json:"source"`
	Text   string `json:"text"`
	// Details are lines of their own, such as attributes or observers.
	Details []string `json:"details,omitempty"`
}

// Exchange is what GET /v1/observers/<node id> shows: what was said last on the
// newest stream of an Envoy. The messages are Envoy's, in the JSON form of
// protobuf; secrets in the specifier are hidden.
type Exchange struct {
	Observer
	// SpecifierSent is left out, and Specifier null, before the first.
	SpecifierSent time.Time       `json:"specifier_sent,omitzero"`
	Specifier     json.RawMessage `json:"specifier"`
	// Report is null before the first.
	Report json.RawMessage `json:"report"`
}

// finished returns e as it is shown: with its schema, and no list null.
func (e Explanation) finished() Explanation {
	e.Schema = Schema
	e.Checks, e.Problems = listed(e.Checks), listed(e.Problems)
	return e
}
