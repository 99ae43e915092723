package main

import (
	"context"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// What docs/failures.md says of how long parts take to find one another again.
const (
	// reconnect is for how long an Envoy may be without a stream once a daemon is
	// there, or has none until it has started.
	reconnect = time.Second
	// backoff is the longest pause between two tries to write to the agent, and how
	// long an agent may take to bring its servers up to date.
	backoff = 5 * time.Second
	// locked is for how long an agent that had something to tell a hanging server may
	// answer nobody: 36 s were seen (facts/consul.md 0.9).
	locked = 36 * time.Second
	// xdsBackoff is the longest pause of an Envoy between two tries to reach the server
	// that tells it where to send requests.
	xdsBackoff = 30 * time.Second
)

// parts are all that can be broken, the farthest from the daemon first.
func parts() []part {
	return []part{
		{"server", func(w *world) *lab.Process { return w.server.Process },
			func(ctx context.Context, w *world) error { return w.server.WaitReady(ctx) }, serverAllows},
		{"agent", func(w *world) *lab.Process { return w.agent.Process },
			func(ctx context.Context, w *world) error { return w.agent.WaitReady(ctx) }, agentAllows},
		{"daemon", func(w *world) *lab.Process { return w.daemon.Process },
			func(ctx context.Context, w *world) error { return w.daemon.WaitReady(ctx) }, daemonAllows},
		{"node-envoy", func(w *world) *lab.Process { return w.node.Process },
			func(ctx context.Context, w *world) error { return w.node.WaitReady(ctx) }, envoyAllows},
		{"sidecar", func(w *world) *lab.Process { return w.flippingSidecar().Process },
			func(ctx context.Context, w *world) error { return w.flippingSidecar().WaitReady(ctx) }, sidecarAllows},
	}
}

// flippingSidecar is the sidecar of the instance that flips.
func (w *world) flippingSidecar() *lab.Envoy {
	return w.instances[w.numberOf(func(i *instance) bool { return i.flips && i.meshed })].sidecar
}

// A dead daemon refreshes nothing. Envoys are back soon, and bad news of a new stream
// count after a while.
func daemonAllows(s setting, h how) fault {
	return fault{what: "daemon", after: reconnect + s.grace() + slack, expires: s.leftOfTTL(), starts: !h.hangs}
}

// What a dead Envoy has said holds until it is stale, and expires then.
func envoyAllows(s setting, _ how) fault {
	return fault{what: "Envoy", after: reconnect + s.grace() + slack, expires: s.conf.Checks.StaleAfter + s.leftOfTTL()}
}

// Requests through a dead sidecar fail, as nothing in Consul looks at it here.
func sidecarAllows(s setting, h how) fault {
	f := envoyAllows(s, h)
	f.fails = true
	return f
}

// Without its agent nobody can be told anything, and Consul takes the node for dead.
// One that is ended leaves: its node is removed, and brought back piece by piece.
func agentAllows(s setting, h how) fault {
	f := fault{what: "agent", after: backoff + slack, expires: s.leftOfTTL(), consul: true, downtime: true}
	if h.ends {
		f.lost = s.restoration()
	}
	return f
}

// Without its server the agent knows all, and tells it then. One that hangs takes the
// agent with it.
func serverAllows(s setting, h how) fault {
	f := fault{what: "server", after: backoff + slack, deaf: xdsBackoff, consul: true}
	if h.hangs {
		f.after, f.expires, f.downtime = locked, s.leftOfTTL(), true
	}
	return f
}
