package bridge

import (
	"context"

	"github.com/consul-hds/consul-hds/bridge/admin"
)

// Status is what a running daemon says of itself.
type Status = admin.Status

// Explanation is why the checks of an instance are what they are.
type Explanation = admin.Explanation

// FetchExplanation asks the daemon about the service or check with an id.
func FetchExplanation(ctx context.Context, addr, id string) (Explanation, error) {
	return admin.Client{Addr: addr}.Explain(ctx, id)
}

// FetchStatus asks the daemon whose admin address is addr, host:port.
func FetchStatus(ctx context.Context, addr string) (Status, error) {
	return admin.Client{Addr: addr}.Status(ctx)
}
