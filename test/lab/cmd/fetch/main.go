// Command fetch gets the Consul and the Envoy that the tests and the demo run,
// and prints their paths.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/consul-hds/consul-hds/test/lab"
)

func main() {
	ctx, stop := lab.SignalContext(context.Background())
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	envoy, err := lab.EnvoyBinary(ctx, "", os.Stderr)
	if err != nil {
		return err
	}
	consul, err := lab.ConsulBinary(ctx, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf("envoy:  %s\nconsul: %s\n", envoy, consul)
	return nil
}
