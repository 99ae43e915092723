package probe

import (
	"errors"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

func TestWhatHasNotChangedIsNotDerivedAgain(t *testing.T) {
	snap := many(3)
	var m Memory
	first := m.Derive(World{Snapshot: snap}, rules())
	second := m.Derive(World{Snapshot: nextOf(snap, 1)}, rules())
	require.Len(t, second.Probes, 3)
	assert.NotSame(t, first.Probes[0], second.Probes[0])
	assert.EqualValues(t, 1, second.Probes[0].Target.Addr.Port())
	assert.Same(t, first.Probes[1], second.Probes[1])
	assert.Same(t, first.Probes[2], second.Probes[2])
}

// TestDerivingOneChangeCostsOneChange holds the allocations down: they must not
// grow with the node.
func TestDerivingOneChangeCostsOneChange(t *testing.T) {
	snap := many(1000)
	var m Memory
	m.Derive(World{Snapshot: snap}, rules())
	port := 0
	allocs := testing.AllocsPerRun(10, func() {
		port++
		snap = nextOf(snap, port)
		m.Derive(World{Snapshot: snap}, rules())
	})
	assert.Less(t, allocs, 200.)
}

// TestRememberingIsDerivingAnew: whatever changes, a memory gives what is derived
// from nothing but the same last probes.
func TestRememberingIsDerivingAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{World: World{Snapshot: snapshot(web(map[string]string{"hds": "http"}))}, rules: rules()}
		var m Memory
		var last []*Probe
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step(t)
			want := Derive(h.World, h.rules, last)
			got := m.Derive(h.World, h.rules)
			require.Equal(t, want, got)
			last = got.Probes
		}
	})
}

// history is a world in which one thing after the other changes. As those of a
// Watcher, its snapshots are immutable, and share what has not changed.
type history struct {
	World
	rules *Rules
}

func (h *history) step(t *rapid.T) {
	next := *h.Snapshot
	next.Instances, next.Checks = maps.Clone(next.Instances), maps.Clone(next.Checks)
	h.Snapshot = &next
	changes := []func(*history, *rapid.T){
		(*history).newRules, (*history).newNode, (*history).lookUp, (*history).proxy, (*history).alias, (*history).register, (*history).deregister,
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		rapid.SampledFrom(changes).Draw(t, "change")(h, t)
	}
}

func instanceID(t *rapid.T) string {
	return rapid.SampledFrom([]string{"web-1", "web-1", "web-1", "web-3", "bad//id"}).Draw(t, "id")
}

func proxyID(t *rapid.T) string {
	return rapid.SampledFrom([]string{"side-1", "side-1", "side-1", "side-2", "web-3"}).Draw(t, "proxy")
}

func (h *history) newRules(t *rapid.T) {
	withTLS := Settings{Kind: TCP, TLS: On, TLSServerName: "a.b", TLSCAFile: "/ca"}
	named := Settings{Kind: HTTP, Address: "other.local"}
	h.rules = rules(rapid.SampledFrom([][]Service{
		nil,
		{{Name: "web", Checks: []Check{{Name: "x", Settings: Settings{Kind: TCP}}, {Name: "a", Settings: named}}}},
		{{Name: "w*", Checks: []Check{{Name: "tls", Settings: withTLS}, {Name: DefaultName, Settings: Settings{Kind: TCP}}}}},
	}).Draw(t, "services")...)
	h.rules.Defaults.TLSCAFile = rapid.SampledFrom([]string{"", "/ca"}).Draw(t, "defaults.ca_file")
	h.rules.Defaults.Interval = time.Duration(rapid.IntRange(1, 2).Draw(t, "interval")) * time.Second
}

func (h *history) newNode(t *rapid.T) {
	h.Snapshot.Node.Address = rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2"}).Draw(t, "node")
}

// lookUp changes what is known of a name or the file; nothing is a state, too.
func (h *history) lookUp(t *rapid.T) {
	errs := []error{nil, errors.New("away"), errors.New("gone")}
	err, good := rapid.SampledFrom(errs).Draw(t, "error"), rapid.Bool().Draw(t, "good")
	h.Names, h.Files = maps.Clone(h.Names), maps.Clone(h.Files)
	switch rapid.IntRange(0, 3).Draw(t, "look-up") {
	case 0:
		h.Names, h.Files = nil, nil
	case 1:
		h.Files = map[string]Known[[]byte]{"/ca": {Value: []byte(rapid.SampledFrom([]string{"", "garbage"}).Draw(t, "file")), Good: good, Err: err}}
	default:
		if h.Names == nil {
			h.Names = map[string]Known[netip.Addr]{}
		}
		name := rapid.SampledFrom([]string{"app.local", "other.local"}).Draw(t, "name")
		address := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.3", "10.0.0.4"}).Draw(t, "address"))
		h.Names[name] = Known[netip.Addr]{Value: address, Good: good, Err: err}
	}
}

// proxy registers a sidecar of an instance, or one that names another service.
func (h *history) proxy(t *rapid.T) {
	side := sidecar(proxyID(t), instanceID(t), "127.0.0.1", rapid.IntRange(80, 81).Draw(t, "port"))
	side.Proxy.DestinationServiceName = rapid.SampledFrom([]string{"web", "web", "other"}).Draw(t, "service")
	h.Snapshot.Instances[side.ID] = side
	if rapid.Bool().Draw(t, "with alias") {
		h.Snapshot.Checks["service:"+side.ID] = &catalog.Check{ServiceID: side.ID, Type: catalog.CheckTypeAlias}
	}
}

func (h *history) alias(t *rapid.T) {
	id := proxyID(t)
	delete(h.Snapshot.Checks, "service:"+id)
	if rapid.Bool().Draw(t, "there") {
		h.Snapshot.Checks["service:"+id] = &catalog.Check{ServiceID: id, Type: catalog.CheckTypeAlias}
	}
}

func (h *history) register(t *rapid.T) {
	metas := []map[string]string{
		nil, {"hds": "http"}, {"hds": "tcp"}, {"hds": "htp"}, {"hds": "http", "hds_address": "app.local"}, {"hds": "off"}, {"hds": "http", "hds_port": "0"}, {"hds_path": "/"},
		{"hds": "http", "hds_observer": "node"}, {"hds": "http", "hds_observer": "sidecar"}, {"hds": "http", "hds_tls": "true", "hds_tls_server_name": "a.b"},
	}
	id := instanceID(t)
	h.Snapshot.Instances[id] = &catalog.Instance{
		ID: id, Service: rapid.SampledFrom([]string{"web", "other"}).Draw(t, "service"), Port: 80,
		Address: rapid.SampledFrom([]string{"", "127.0.0.1", "app.local", "no address"}).Draw(t, "address"), Meta: rapid.SampledFrom(metas).Draw(t, "meta"),
	}
}

func (h *history) deregister(t *rapid.T) {
	delete(h.Snapshot.Instances, rapid.OneOf(rapid.Just(instanceID(t)), rapid.Just(proxyID(t))).Draw(t, "gone"))
}
