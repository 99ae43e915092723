package main

import (
	"context"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

// setting is how the daemon of a world is configured. Scenarios whose settings
// have one name share a world.
type setting struct {
	name string
	conf *config.Config
	// via, if it is set, puts something between two parts: it is given the name of
	// a link, as those below, and the address that the first part would connect
	// to, and returns the address to give it instead.
	via func(w *world, link, address string) (string, error)
	// cluster has three servers, of which users ask one.
	cluster bool
	// consuls and daemon, if they are set, change how the agents and the daemon are
	// started.
	consuls func(server, agent *lab.ConsulOptions)
	daemon  func(context.Context, *world, *lab.DaemonOptions) error
}

// The links of a world that via is asked about.
const (
	linkDaemonAgent   = "daemon-agent"   // host:port of the agent's HTTP API
	linkNodeDaemon    = "node-daemon"    // unix:// address, of the node Envoy
	linkSidecarDaemon = "sidecar-daemon" // unix:// address, of the sidecar of the instance that flips, and no other
	linkAgentServer   = "agent-server"   // host:port of the server's RPC, which the agent finds by itself
	linkProbe         = "probe"          // host:port of an app, for probes alone
)

// usual are the defaults, for claims about them.
func usual() setting { return setting{name: "defaults", conf: config.Default()} }

// quick makes probes fast and patience short, for what is not about the defaults.
// Probes have the usual time for an answer: on a busy machine they need it. The TTL is the shortest that docs/config.md recommends.
func quick() setting {
	c := config.Default()
	c.Defaults.Interval, c.HDS.ReportInterval = 200*time.Millisecond, 200*time.Millisecond
	c.Checks.TTL, c.Checks.StaleAfter, c.Checks.AdoptTimeout = 30*time.Second, 7*time.Second, 12*time.Second
	return setting{name: "quick", conf: c}
}

// patient are the defaults but for the time that probes have for an answer: an Envoy
// that gets thousands of probes at once makes all of them at once, and then neither it
// nor the apps are quick.
func patient() setting {
	c := config.Default()
	c.Defaults.Timeout = 5 * time.Second
	return setting{name: "patient", conf: c}
}

// hcl is the daemon's configuration.
func (s setting) hcl(nodeID string) string {
	return fmt.Sprintf(`
defaults {
  interval            = "%s"
  timeout             = "%s"
  unhealthy_threshold = %d
  healthy_threshold   = %d
}
hds {
  node_ids        = [%q]
  report_interval = "%s"
}
checks {
  ttl           = "%s"
  stale_after   = "%s"
  adopt_timeout = "%s"
}
`, s.conf.Defaults.Interval, s.conf.Defaults.Timeout, s.conf.Defaults.UnhealthyThreshold, s.conf.Defaults.HealthyThreshold,
		nodeID, s.conf.HDS.ReportInterval, s.conf.Checks.TTL, s.conf.Checks.StaleAfter, s.conf.Checks.AdoptTimeout)
}

// slack is what a bound is exceeded by on a machine that is busy with other
// things, as in the end-to-end tests.
const slack = time.Second

// propagation is how long Consul may take from a check in its catalog to the
// Envoys that send traffic (facts/consul.md 0.7 saw 0.3 s).
const propagation = time.Second

// bounds are for how long a status may be wrong, with slack.
type bounds struct {
	// detect and recover are from an app's turn to the catalog (and to DNS) while
	// nothing else is broken: docs/failures.md, for an app that answers at once.
	detect, recover time.Duration
	// stale is the bound of rule 3: from the last answer, or the daemon's start, to
	// the end of what it said, whatever is broken.
	stale time.Duration
}

func (s setting) bounds() bounds {
	detection := func(probes int) time.Duration {
		pauses := time.Duration(1.05 * float64(probes) * float64(s.conf.Defaults.Interval))
		return pauses + s.conf.HDS.ReportInterval + 200*time.Millisecond + slack
	}
	c := s.conf.Checks
	return bounds{
		detect:  detection(s.conf.Defaults.UnhealthyThreshold),
		recover: detection(s.conf.Defaults.HealthyThreshold),
		stale:   max(c.StaleAfter, c.AdoptTimeout) + c.TTL + slack,
	}
}

// grace is G of docs/how-it-works.md: for how long bad news of a new stream do not
// count.
func (s setting) grace() time.Duration {
	d := s.conf.Defaults
	u := time.Duration(d.UnhealthyThreshold)
	return d.Timeout*u + time.Duration(1.05*float64(d.Interval))*(u-1)
}

// leftOfTTL is what is left at least of a check's TTL when refreshes stop.
func (s setting) leftOfTTL() time.Duration { return s.conf.Checks.TTL * 2 / 3 }

// restoration is how long a lost check is away at most.
func (s setting) restoration() time.Duration {
	return max(2*time.Second, s.conf.Consul.PollInterval+time.Second) + slack
}
