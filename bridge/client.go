package bridge

import (
	"context"
	"errors"

	"github.com/consul-hds/consul-hds/bridge/admin"
)

// Status is what a running daemon says of itself.
type (
	Status         = admin.Status
	StatusObserver = admin.Observer
	StatusRefused  = admin.Refused
	StatusCheck    = admin.Check
	StatusProblem  = admin.Problem
	StatusFilter   = admin.Filter
)

// Explanation is why the checks of an instance are what they are.
type Explanation = admin.Explanation

// IsNotFound says whether an error is the daemon's not knowing what it was asked
// for.
func IsNotFound(err error) bool { return errors.Is(err, admin.ErrNotFound) }

// FetchExplanation asks the daemon about the service or check with an id.
func FetchExplanation(ctx context.Context, addr, id string) (Explanation, error) {
	return admin.Client{Addr: addr}.Explain(ctx, id)
}

// FetchStatus asks the daemon whose admin address is addr, host:port.
func FetchStatus(ctx context.Context, addr string) (Status, error) {
	return admin.Client{Addr: addr}.Status(ctx)
}
