// Package catalogtest holds what a catalog.Watcher must do with any Consul
// agent, so that the same contract is tried on a fake one and on real ones.
package catalogtest

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// patience is how long an expected change may take on a busy machine.
const patience = 20 * time.Second

// OddIDs are service ids that arrive unchanged at the agent although they need
// escaping in a path.
var OddIDs = []string{"a:b", "a b", "a/b", "a%b", "a%2Fb", "100%", "a?b", "a#b", "a+b", "ü", `a"b`, "a;b&c=d"}

// UncleanIDs are service ids that no path can ask for (facts/consul.md 0.12).
var UncleanIDs = []string{"a//b", "/a", "a/../b", "..", "a\nb"}

// Contract tries a Watcher on an agent that serves nothing but what the test
// registers, and where the client may do anything.
func Contract(t *testing.T, client *api.Client) {
	t.Run("fields", func(t *testing.T) { fields(t, client) })
	t.Run("bell", func(t *testing.T) { bell(t, client) })
	t.Run("bell without services", func(t *testing.T) { bellWithoutServices(t, client) })
	t.Run("poll finds checks", func(t *testing.T) { poll(t, client) })
	t.Run("odd ids", func(t *testing.T) { oddIDs(t, client) })
	t.Run("unclean ids", func(t *testing.T) { uncleanIDs(t, client) })
}

// Start runs a Watcher for the rest of the test and waits for its first
// snapshot and the doorbell's first answer.
func Start(t *testing.T, client *api.Client, poll time.Duration) *catalog.Watcher {
	t.Helper()
	w, err := catalog.New(catalog.Config{Client: client, PollInterval: poll})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	Await(t, w, func(s *catalog.Snapshot) bool { return s.Node.Name != "" })
	return w
}

// Await waits until a snapshot of w is as wanted and returns it.
func Await(t *testing.T, w *catalog.Watcher, wanted func(*catalog.Snapshot) bool) *catalog.Snapshot {
	t.Helper()
	deadline := time.After(patience)
	for {
		if s := w.Snapshot(); s != nil && wanted(s) {
			return s
		}
		select {
		case <-w.Updates():
		case <-deadline:
			require.FailNow(t, "no such snapshot", "last: %+v, health: %+v", w.Snapshot(), w.Health())
		}
	}
}

func register(t *testing.T, client *api.Client, r *api.AgentServiceRegistration) {
	t.Helper()
	require.NoError(t, client.Agent().ServiceRegister(r))
	t.Cleanup(func() { _ = client.Agent().ServiceDeregister(r.ID) })
}

func has(id string) func(*catalog.Snapshot) bool {
	return func(s *catalog.Snapshot) bool { return s.Instances[id] != nil }
}

func hasNot(id string) func(*catalog.Snapshot) bool {
	return func(s *catalog.Snapshot) bool { return s.Instances[id] == nil }
}

func fields(t *testing.T, client *api.Client) {
	register(t, client, &api.AgentServiceRegistration{
		ID: "web-1", Name: "web", Port: 8080, Address: "10.0.0.9", Meta: map[string]string{"hds": "http"},
		Check: &api.AgentServiceCheck{CheckID: "hds:web-1", Name: "c", TTL: "60s", Status: "warning", Notes: "n"},
	})
	register(t, client, &api.AgentServiceRegistration{
		ID: "web-1-sidecar-proxy", Name: "web-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: "web", DestinationServiceID: "web-1",
			LocalServiceAddress: "127.0.0.1", LocalServicePort: 8080,
		},
	})
	register(t, client, &api.AgentServiceRegistration{ID: "sock", Name: "sock", SocketPath: "/run/app.sock"})
	s := Await(t, Start(t, client, time.Second), has("web-1"))

	assert.NotEmpty(t, s.Node.Name)
	assert.NotEmpty(t, s.Node.Address)
	assert.Equal(t, &catalog.Instance{
		ID: "web-1", Service: "web", Address: "10.0.0.9", Port: 8080, Meta: map[string]string{"hds": "http"},
	}, s.Instances["web-1"])
	assert.Equal(t, &catalog.Instance{
		ID: "web-1-sidecar-proxy", Service: "web-sidecar-proxy", Kind: catalog.KindConnectProxy, Port: 21000,
		Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "web-1", LocalServiceAddress: "127.0.0.1", LocalServicePort: 8080},
	}, s.Instances["web-1-sidecar-proxy"])
	assert.Equal(t, &catalog.Instance{ID: "sock", Service: "sock", SocketPath: "/run/app.sock"}, s.Instances["sock"])
	assert.Equal(t, &catalog.Check{
		ID: "hds:web-1", Name: "c", ServiceID: "web-1", Type: catalog.CheckTypeTTL, Status: "warning", Notes: "n",
	}, s.Checks["hds:web-1"])
}

// bell tells the doorbell from the poll by a poll that never comes.
func bell(t *testing.T, client *api.Client) {
	w := Start(t, client, time.Hour)
	register(t, client, &api.AgentServiceRegistration{ID: "belled", Name: "belled"})
	before := Await(t, w, has("belled"))
	require.NoError(t, client.Agent().ServiceDeregister("belled"))
	after := Await(t, w, hasNot("belled"))
	assert.Greater(t, after.Revision, before.Revision)
	assert.True(t, after.ReadAt.After(before.ReadAt))
	assert.Empty(t, w.Health().DoorbellErr)
}

// bellWithoutServices: the filter of the doorbell's query leaves the node and the
// index, and nothing that grows with the node.
func bellWithoutServices(t *testing.T, client *api.Client) {
	register(t, client, &api.AgentServiceRegistration{ID: "quiet", Name: "quiet"})
	node := Await(t, Start(t, client, time.Second), has("quiet")).Node
	all, whole, err := client.Catalog().NodeServiceList(node.Name, nil)
	require.NoError(t, err)
	require.NotEmpty(t, all.Services)
	none, meta, err := client.Catalog().NodeServiceList(node.Name, &api.QueryOptions{Filter: `ID == ""`})
	require.NoError(t, err)
	assert.Empty(t, none.Services)
	assert.Equal(t, node.Address, none.Node.Address)
	assert.GreaterOrEqual(t, meta.LastIndex, whole.LastIndex)
	require.NoError(t, client.Agent().ServiceDeregister("quiet"))
	_, after, err := client.Catalog().NodeServiceList(node.Name, &api.QueryOptions{Filter: `ID == ""`, WaitIndex: meta.LastIndex, WaitTime: patience})
	require.NoError(t, err)
	assert.Greater(t, after.LastIndex, meta.LastIndex)
}

// poll: a check's status rings no bell.
func poll(t *testing.T, client *api.Client) {
	register(t, client, &api.AgentServiceRegistration{
		ID: "polled", Name: "polled", Check: &api.AgentServiceCheck{CheckID: "hds:polled", TTL: "60s"},
	})
	w := Start(t, client, 50*time.Millisecond)
	status := func(want string) func(*catalog.Snapshot) bool {
		return func(s *catalog.Snapshot) bool {
			return s.Checks["hds:polled"] != nil && s.Checks["hds:polled"].Status == want
		}
	}
	Await(t, w, status("critical"))
	require.NoError(t, client.Agent().UpdateTTL("hds:polled", "fine", "passing"))
	s := Await(t, w, status("passing"))
	assert.Equal(t, "fine", s.Checks["hds:polled"].Output)
	still := Await(t, w, func(n *catalog.Snapshot) bool { return n.ReadAt.After(s.ReadAt) })
	assert.Equal(t, s.Revision, still.Revision, "same content")
}

// oddIDs deregisters one id after the other while the lists are read: an id that
// was not escaped as it should would be kept for ever, or confirm another one.
func oddIDs(t *testing.T, client *api.Client) {
	for _, id := range OddIDs {
		register(t, client, &api.AgentServiceRegistration{ID: id, Name: "odd"})
	}
	w := Start(t, client, 50*time.Millisecond)
	for i, id := range OddIDs {
		Await(t, w, has(id))
		require.NoError(t, client.Agent().ServiceDeregister(id))
		s := Await(t, w, hasNot(id))
		for _, other := range OddIDs[i+1:] {
			assert.Contains(t, s.Instances, other)
		}
	}
}

// uncleanIDs cannot be deregistered by a path either, so they stay.
func uncleanIDs(t *testing.T, client *api.Client) {
	for _, id := range UncleanIDs {
		register(t, client, &api.AgentServiceRegistration{ID: id, Name: "unclean"})
	}
	w := Start(t, client, 50*time.Millisecond)
	for _, id := range UncleanIDs {
		Await(t, w, has(id))
	}
}
