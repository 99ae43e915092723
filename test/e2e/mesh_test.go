package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
	"github.com/consul-hds/consul-hds/test/lab/mesh"
)

// propagation is how long Consul may take from a check in its catalog to the
// Envoys that send traffic (facts/consul.md 0.7 saw 0.3 s).
const propagation = time.Second

// meshBound is how long after its health has turned a backend may get traffic,
// or may wait for it.
var meshBound = bound(200*time.Millisecond, 0, 500*time.Millisecond, 2) + propagation + slack

// probed is how the backends of the mesh are registered, but for one scene.
var probed = mesh.Registration{Meta: map[string]string{"hds": "http", "hds_path": mesh.HealthPath}}

// TestTrafficInAMesh is what users see of a mesh in which this and that goes
// wrong, while they send requests all the time.
func TestTrafficInAMesh(t *testing.T) {
	t.Parallel()
	m := newMeshStory(t)
	m.scene("no agent reaches the app", (*scene).theAppIsHidden)
	m.scene("health turns bad", (*scene).healthTurnsBad)
	m.scene("health turns bad, no alias", (*scene).noAlias)
	m.scene("app killed", (*scene).appKilled)
	m.scene("sidecar killed", (*scene).sidecarKilled)
	m.scene("daemon killed", (*scene).daemonKilled)
	m.scene("agent of a backend killed", (*scene).agentKilled)
	m.scene("agent of a backend leaves", (*scene).agentLeaves)
	m.scene("agent of the edge killed", (*scene).edgeAgentKilled)
	t.Log("what users saw:\n" + m.table())
}

// meshStory is a mesh under steady load, and what its users have seen so far.
type meshStory struct {
	*mesh.Mesh
	t    *testing.T
	ctx  context.Context
	load *mesh.Load
	rows []string
}

func newMeshStory(t *testing.T) *meshStory {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	start := time.Now()
	m, err := mesh.Start(ctx, theLab, mesh.Options{DaemonConfig: quick, Backends: probed})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, p := range m.Processes() {
			if t.Failed() {
				t.Logf("the end of the log of %s:\n%s", p.Name(), p.LogTail(20))
			}
		}
		assert.NoError(t, m.Close())
	})
	if m.Hidden.Namespace == nil {
		t.Logf("ATTENTION: %v. All apps are on the machine's own loopback interface.", lab.ErrNoNamespaces)
	}
	load := m.StartLoad()
	t.Cleanup(load.Stop)
	require.NoError(t, load.AwaitAll(ctx, time.Minute, m.Plain.ID, m.Hidden.ID))
	t.Logf("the mesh serves %s after its start began", time.Since(start).Round(time.Millisecond))
	return &meshStory{Mesh: m, t: t, ctx: ctx, load: load}
}

// scene is a part of the story. It begins with both backends healthy and in use.
type scene struct {
	*meshStory
	t     *testing.T
	name  string
	start time.Time
}

// scene plays one part, and notes what users saw of it.
func (m *meshStory) scene(name string, play func(*scene)) {
	m.t.Run(name, func(t *testing.T) {
		s := &scene{meshStory: m, t: t, name: name}
		s.settle()
		s.start = time.Now()
		play(s)
	})
}

// at is a node as the other tests know it.
func (s *scene) at(n *mesh.Node) *world {
	return &world{t: s.t, ctx: s.ctx, consul: n.Consul, daemon: n.Daemon, client: n.Consul.Client(), catalog: n.Consul.Catalog()}
}

// settle waits until both backends are healthy, by all of their checks, and have
// got traffic for a while.
func (s *scene) settle() {
	s.t.Helper()
	for _, b := range []*mesh.Backend{s.Plain, s.Hidden} {
		w := s.at(b.Node)
		w.eventually(2*patience, func() error {
			if err := w.has(b.CheckID(), api.HealthPassing)(); err != nil {
				return err
			}
			if err := w.allPass(); err != nil {
				return err
			}
			return s.load.Uses(b.ID, time.Now().Add(-3*time.Second))
		})
	}
}

// allPass says that every check of the agent is passing, in the catalog too.
func (w *world) allPass() error {
	for id := range w.checks() {
		if err := w.has(id, api.HealthPassing)(); err != nil {
			return err
		}
	}
	return nil
}

// leaves waits until a backend gets no traffic any more, which is to be so a
// time after start, and returns how long it got some.
func (s *scene) leaves(b *mesh.Backend, within time.Duration) time.Duration {
	s.t.Helper()
	require.NoError(s.t, s.load.AwaitNone(s.ctx, b.ID, within))
	last := s.load.Since(s.start).By(b.ID).LastAfter(s.start)
	assert.LessOrEqual(s.t, last, within)
	return last
}

// returns waits until a backend gets traffic, which is to be so a time after
// start, and returns how long it got none.
func (s *scene) returns(b *mesh.Backend, within time.Duration) time.Duration {
	s.t.Helper()
	require.NoError(s.t, s.load.AwaitAll(s.ctx, within, b.ID))
	return s.load.Since(s.start).By(b.ID)[0].At.Sub(s.start)
}

// saw notes what users have seen since the scene began, and returns what failed
// of it and for how long.
func (s *scene) saw(remark string, args ...any) (failed mesh.Traffic, during time.Duration) {
	s.t.Helper()
	seen := s.load.Since(s.start)
	failed = seen.Failed()
	if len(failed) > 0 {
		s.t.Logf("the first failure: %v", failed[0].Err)
		during = failed.LastAfter(s.start)
	}
	s.rows = append(s.rows, fmt.Sprintf("%s\t%d\t%d\t%s\t%s", s.name, len(seen), len(failed), ms(during), fmt.Sprintf(remark, args...)))
	return failed, during
}

// nothingFails asserts that no request has failed since the scene began.
func (s *scene) nothingFails(remark string, args ...any) {
	s.t.Helper()
	failed, _ := s.saw(remark, args...)
	assert.Zero(s.t, len(failed), "failed requests")
}

func (m *meshStory) table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "what\trequests\tfailed\tlast failure after\tremark")
	for _, row := range m.rows {
		fmt.Fprintln(w, row)
	}
	_ = w.Flush()
	return out.String()
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// theAppIsHidden has the agent look for itself at the app that a sidecar in a
// namespace finds healthy.
func (s *scene) theAppIsHidden() {
	if s.Hidden.Namespace == nil {
		s.t.Skip(lab.ErrNoNamespaces)
	}
	w, app := s.at(s.Hidden.Node), s.Hidden.App.Addr()
	_, err := net.Dial("tcp", app)
	require.ErrorContains(s.t, err, "refused")
	require.NoError(s.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "view", Name: "view", Check: &api.AgentServiceCheck{CheckID: "view", HTTP: "http://" + app + mesh.HealthPath, Interval: "100ms"},
	}))
	defer w.deregister("view")
	w.eventually(patience, func() error {
		if c := w.check("view"); !strings.Contains(c.Output, "refused") {
			return fmt.Errorf("the agent's own check says %q", c.Output)
		}
		return nil
	})
	require.NoError(s.t, w.has("view", api.HealthCritical)())
	require.NoError(s.t, w.has(s.Hidden.CheckID(), api.HealthPassing)())
	check, _ := w.status().Check(s.Hidden.CheckID())
	assert.Equal(s.t, app, check.Target)
	assert.Equal(s.t, []string{s.Hidden.SidecarID()}, check.Observers)
}

// turns sets what the health endpoint of a backend answers, and begins the scene
// with it.
func (s *scene) turns(b *mesh.Backend, code int) {
	s.t.Helper()
	s.start = time.Now()
	require.NoError(s.t, b.App.SetHealth(s.ctx, code))
}

// A backend says that it is not well while it goes on to serve: nobody notices.
func (s *scene) healthTurnsBad() {
	bad := s.Hidden
	s.turns(bad, 503)
	left := s.leaves(bad, meshBound)
	s.t.Logf("the last request to the bad backend was answered %s after its health turned bad", ms(left))
	s.at(bad.Node).always(3*time.Second, func() error {
		if n := len(s.load.Since(s.start.Add(left + 1)).By(bad.ID)); n != 0 {
			return fmt.Errorf("%d more requests", n)
		}
		return nil
	})
	s.nothingFails("no request to it after %s", ms(left))
	s.turns(bad, 200)
	s.name = "health recovers"
	s.nothingFails("requests to it again after %s", ms(s.returns(bad, meshBound)))
}

// An operator's own checks of a sidecar keep Consul from making its alias check,
// so that a bad backend stays in use (consul #5332): the problem list says so.
func (s *scene) noAlias() {
	b, w := s.Plain, s.at(s.Plain.Node)
	own := probed
	own.SidecarChecks = api.AgentServiceChecks{{CheckID: "own", TTL: "1h", Status: api.HealthPassing}}
	require.NoError(s.t, b.Register(own))
	w.eventually(patience, func() error {
		if p := fmt.Sprint(w.problems(b.ID)); !strings.Contains(p, "has no alias check of this service") {
			return fmt.Errorf("problems are %s", p)
		}
		return w.has(b.CheckID(), api.HealthPassing)()
	})
	s.turns(b, 503)
	w.eventually(patience, w.has(b.CheckID(), api.HealthCritical))
	w.always(propagation+2*time.Second, func() error { return s.load.Uses(b.ID, s.start) })
	s.nothingFails("it stays in use")
	require.NoError(s.t, b.Register(probed))
	require.NoError(s.t, s.load.AwaitNone(s.ctx, b.ID, patience), "it leaves with the alias check")
	require.NoError(s.t, b.App.SetHealth(s.ctx, 200))
}
