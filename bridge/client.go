package bridge

import (
	"context"

	"github.com/consul-hds/consul-hds/bridge/admin"
)

// Status is what a running daemon says of itself.
type Status = admin.Status

// FetchStatus asks the daemon whose admin address is addr, host:port.
func FetchStatus(ctx context.Context, addr string) (Status, error) {
	return admin.Client{Addr: addr}.Status(ctx)
}
