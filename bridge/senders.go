package bridge

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/bridge/telemetry/statsd"
)

// makeSenders makes what sends metrics to statsd servers, if there are any.
func (b *Bridge) makeSenders() error {
	t := b.config.Telemetry
	if t.StatsdAddress != "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("reading the host's name, which gauges in statsd have: %w", err)
		}
		b.addSender("statsd", t.StatsdAddress, statsd.Plain{Host: host})
	}
	if t.DogstatsdAddr != "" {
		b.addSender("dogstatsd", t.DogstatsdAddr, statsd.Tagged{Tags: t.DogstatsdTags})
	}
	return nil
}

func (b *Bridge) addSender(name, address string, dialect statsd.Dialect) {
	b.senders = append(b.senders, statsd.New(statsd.Config{
		Gatherer: b.metrics.Registry(), Address: address, Dialect: dialect, Logger: b.config.Logger.Named(name),
	}))
}

// send runs the senders.
func (b *Bridge) send(ctx context.Context) error {
	var group errgroup.Group
	for _, s := range b.senders {
		group.Go(func() error { return s.Run(ctx) })
	}
	return group.Wait()
}
