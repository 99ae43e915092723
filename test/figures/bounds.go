package main

import (
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/config"
)

// The bounds of the contract, as docs/how-it-works.md tells them, at default
// settings.

// detection is how long a change that takes so many probes takes at most to reach
// the catalog, if so many of them may take their whole timeout.
func detection(probes, slow int) time.Duration {
	c := config.Default()
	pauses := time.Duration(1.05 * float64(probes) * float64(c.Defaults.Interval))
	return pauses + time.Duration(slow)*c.Defaults.Timeout + c.HDS.ReportInterval + 200*time.Millisecond
}

// restoration is how long a lost check is away at most.
func restoration() time.Duration {
	return max(2*time.Second, config.Default().Consul.PollInterval+time.Second)
}

// refreshPeriod is how often an unchanged check is written.
func refreshPeriod() time.Duration { return config.Default().Checks.TTL / 3 }

// within is an error if a duration passes its bound.
func within(what string, took, bound time.Duration) error {
	if took > bound {
		return fmt.Errorf("%s: %s, but the bound is %s", what, took, bound)
	}
	return nil
}
