package e2e

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab/mesh"
)

// listenerCheck is the interval of the check of a sidecar's listener that Consul
// makes by itself.
const listenerCheck = 10 * time.Second

// A dead app fails requests for as long as it takes to see that it is dead.
func (s *scene) appKilled() {
	b := s.Plain
	require.NoError(s.t, b.App.Kill())
	w := s.at(b.Node)
	w.eventually(meshBound, w.has(b.CheckID(), api.HealthCritical))
	s.failuresEnd(meshBound)
	s.start = time.Now()
	require.NoError(s.t, b.App.Start())
	s.returns(b, meshBound)
}

// failuresEnd waits until no request fails any more, and asserts that there were
// some, and none later than a time after the scene's begin.
func (s *scene) failuresEnd(within time.Duration) {
	s.t.Helper()
	s.at(s.Edge.Node).eventually(within+patience, func() error {
		if n := len(s.load.Since(time.Now().Add(-2 * time.Second)).Failed()); n != 0 {
			return fmt.Errorf("%d requests have failed in the last 2 s", n)
		}
		if time.Since(s.start) < 2*time.Second {
			return fmt.Errorf("it is too early to say")
		}
		return nil
	})
	failed, during := s.saw("")
	assert.NotEmpty(s.t, failed)
	assert.LessOrEqual(s.t, during, within)
}

// A dead sidecar is found dead by Consul's own check of its listener. The daemon
// keeps the check of the app, of which nobody tells, until it is stale.
func (s *scene) sidecarKilled() {
	b := s.Plain
	w := s.at(b.Node)
	unchanged := w.sample(map[string]string{b.CheckID(): api.HealthPassing})
	require.NoError(s.t, b.Sidecar.Kill())
	s.failuresEnd(listenerCheck + propagation + slack)
	require.NoError(s.t, b.Sidecar.Start())
	require.NoError(s.t, b.Sidecar.WaitReady(s.ctx))
	s.settle()
	unchanged.ends(s.t)
}

// A dead daemon changes nothing within the TTL, and neither does its return.
func (s *scene) daemonKilled() {
	b := s.Hidden
	w := s.at(b.Node)
	unchanged := w.sample(map[string]string{b.CheckID(): api.HealthPassing})
	require.NoError(s.t, b.Daemon.Kill())
	w.always(5*time.Second, s.bothInUse)
	require.NoError(s.t, b.Daemon.Start())
	require.NoError(s.t, b.Daemon.WaitReady(s.ctx))
	w.eventually(patience, func() error {
		if check, _ := w.status().Check(b.CheckID()); check.Phase != "reported" {
			return fmt.Errorf("it is %s", check.Phase)
		}
		return nil
	})
	w.always(3*time.Second, s.bothInUse)
	unchanged.ends(s.t)
	s.nothingFails("both serve all the time")
}

// bothInUse says that both backends have got traffic since the scene began.
func (s *scene) bothInUse() error {
	return errors.Join(s.load.Uses(s.Plain.ID, s.start), s.load.Uses(s.Hidden.ID, s.start))
}

// An agent that is killed and comes back at once costs no request. Its own check
// of the sidecar's listener begins as critical, so that the other backend has all
// the traffic until that has passed.
func (s *scene) agentKilled() {
	w := s.at(s.Plain.Node)
	unchanged := w.sample(map[string]string{s.Plain.CheckID(): api.HealthPassing})
	s.restarted(s.Plain.Node, syscall.SIGKILL)
	unchanged.ends(s.t)
	s.nothingFails("%s", s.paused(s.Plain))
}

// An agent that is ended by SIGTERM takes its node out of the catalog first: the
// other backend has all the traffic until it is back, and its checks have passed.
func (s *scene) agentLeaves() {
	s.restarted(s.Plain.Node, syscall.SIGTERM)
	s.nothingFails("%s", s.paused(s.Plain))
}

// Without an agent, the Envoys of the edge go on with what it has told them.
func (s *scene) edgeAgentKilled() {
	s.restarted(s.Edge.Node, syscall.SIGKILL)
	s.turns(s.Hidden, 503)
	s.leaves(s.Hidden, patience)
	s.nothingFails("its Envoys hear of a bad backend again")
	require.NoError(s.t, s.Hidden.App.SetHealth(s.ctx, 200))
}

// restarted restarts the agent of a node, and waits until all is well.
func (s *scene) restarted(n *mesh.Node, sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, n.Consul.Restart(s.ctx, sig))
	s.settle()
}

// paused tells of the longest time for which a backend got nothing since the
// scene began.
func (s *scene) paused(b *mesh.Backend) string {
	longest := s.load.Since(s.start).By(b.ID).LongestPause(s.start)
	return fmt.Sprintf("it got no traffic for %s at most", ms(longest))
}
