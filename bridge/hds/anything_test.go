package hds

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// metaKeys are ours and some that are nearly ours.
var metaKeys = []string{
	"hds", "hds_path", "hds_method", "hds_host", "hds_expected_statuses", "hds_port", "hds_address", "hds_interval", "hds_timeout",
	"hds_healthy_threshold", "hds_unhealthy_threshold", "hds_tls", "hds_tls_server_name", "hds_tls_skip_verify", "hds_grpc_service",
	"hds_observer", "hds_mode", "hds_", "HDS", "hds_x", "other",
}

// values are likely ones, good and bad, beside any text.
var values = []string{
	"http", "tcp", "grpc", "off", "/", "/ready", "GET", "post", "200-299,304", "99", "80", "0", "65536", "127.0.0.1", "::1", "::ffff:1.2.3.4",
	"fe80::1%lo", "127.1", "localhost", "a.b", "1s", "100ms", "0s", "-1s", "1h", "5", "1", "1000", "4294967295", "true", "false",
	"%", "%ENVIRONMENT(X)%", "a\r\nb", "\x00", "é", " ", strings.Repeat("a", 512), "auto", "node", "sidecar", "enforce",
}

func anyText(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" is likely") {
		return rapid.SampledFrom(values).Draw(t, label)
	}
	return rapid.String().Draw(t, label)
}

// mostly draws a good value four times of five.
func mostly[T any](t *rapid.T, label string, good T, any func() T) T {
	if rapid.IntRange(0, 4).Draw(t, label+" is good") > 0 {
		return good
	}
	return any()
}

func anyMeta(t *rapid.T) map[string]string {
	meta := map[string]string{}
	if rapid.IntRange(0, 3).Draw(t, "opts in") > 0 {
		meta["hds"] = rapid.SampledFrom([]string{"http", "tcp", "grpc"}).Draw(t, "kind")
	}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		meta[rapid.SampledFrom(metaKeys).Draw(t, "key")] = anyText(t, "value")
	}
	return meta
}

func anyInstance(t *rapid.T, id string) *catalog.Instance {
	i := &catalog.Instance{
		ID: id, Service: rapid.SampledFrom([]string{"web", "api"}).Draw(t, "service"), Meta: anyMeta(t),
		Address: mostly(t, "address", "127.0.0.1", func() string { return anyText(t, "address") }),
		Port:    mostly(t, "port", 80, func() int { return rapid.Int().Draw(t, "port") }),
	}
	if rapid.IntRange(0, 4).Draw(t, "has a socket") == 0 {
		i.SocketPath = rapid.OneOf(rapid.Just("/run/a.sock"), rapid.String()).Draw(t, "socket")
	}
	if rapid.IntRange(0, 4).Draw(t, "is a sidecar") == 0 {
		i.Kind = catalog.KindConnectProxy
		i.Proxy = &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "s0", LocalServiceAddress: anyText(t, "local address"), LocalServicePort: rapid.Int().Draw(t, "local port")}
	}
	return i
}

// anyCheck is a check as the config would let it through: every value by itself
// was found to be right there, but not their sum.
func anyCheck(t *rapid.T, name string) probe.Check {
	s := probe.Settings{
		Kind: rapid.SampledFrom([]probe.Kind{probe.HTTP, probe.TCP, probe.GRPC}).Draw(t, "kind"),
		Interval: mostly(t, "interval", time.Second, func() time.Duration {
			return time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(time.Hour)).Draw(t, "interval"))
		}),
		Observer: rapid.SampledFrom([]probe.ObserverPolicy{"", probe.Auto, probe.Node, probe.Sidecar}).Draw(t, "observer"),
		TLS:      rapid.SampledFrom([]probe.Switch{"", probe.On, probe.Not}).Draw(t, "tls"), TLSSkipVerify: rapid.SampledFrom([]probe.Switch{"", probe.On}).Draw(t, "skip"),
		TLSServerName: rapid.SampledFrom([]string{"", "a.b", "::1"}).Draw(t, "server name"), TLSCAFile: rapid.SampledFrom([]string{"", "/ca", "/missing"}).Draw(t, "ca"),
		UnhealthyThreshold: mostly(t, "threshold", 2, func() int { return rapid.IntRange(0, 1000).Draw(t, "threshold") }),
	}
	header := map[string][]string{rapid.String().Draw(t, "header"): {anyText(t, "header value")}}
	if probe.CheckHeaders(header) == nil && s.Kind == probe.HTTP {
		s.Headers = header
	}
	if p, err := probe.ParsePayload(anyText(t, "payload")); err == nil {
		switch s.Kind {
		case probe.HTTP:
			s.Body, s.Method, s.HTTP2 = p, rapid.SampledFrom([]string{"", "GET", "POST"}).Draw(t, "method"), rapid.Bool().Draw(t, "http2")
			s.Receive = []probe.Payload{p}
		case probe.TCP:
			s.Send, s.Receive = p, []probe.Payload{p}
		}
	}
	return probe.Check{Name: name, Settings: s}
}

// anyWorld is any registration of three instances, with any rules.
func anyWorld(t *rapid.T) (probe.World, *probe.Rules) {
	snap := &catalog.Snapshot{Node: catalog.Node{Address: anyText(t, "node address")}, Instances: map[string]*catalog.Instance{}}
	for _, id := range []string{"s0", "s1", rapid.String().Draw(t, "id")} {
		snap.Instances[id] = anyInstance(t, id)
	}
	rules := &probe.Rules{
		Defaults: probe.Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: probe.Auto, TLSCAFile: rapid.SampledFrom([]string{"", "/ca"}).Draw(t, "default ca")},
		Services: []probe.Service{{Name: "w*", Checks: []probe.Check{anyCheck(t, "default"), anyCheck(t, "x")}}},
	}
	return probe.World{
		Snapshot: snap,
		Names:    map[string]probe.Known[netip.Addr]{"localhost": {Value: netip.MustParseAddr("127.0.0.1"), Good: true}},
		Files:    map[string]probe.Known[[]byte]{"/ca": {Value: []byte("garbage"), Good: true}},
	}, rules
}

// hurtsNobody holds what is sent for a world against the protos' own rules and
// ours. It returns how many clusters were sent.
func hurtsNobody(t require.TestingT, world probe.World, rules *probe.Rules) int {
	derived := probe.Derive(world, rules, nil)
	plan := NewPlan(PlanConfig{NodeIDs: []string{"n1"}, ReportInterval: interval}, world.Snapshot, derived.Probes)
	s := newSession(1, newIdentity(newNode("n1")), "", nil)
	spec, dropped := s.commit(plan, t0)
	require.Empty(t, dropped, "nothing is left for the last guard")
	require.NoError(t, spec.ValidateAll())
	seen := map[string]bool{}
	for _, c := range spec.ClusterHealthChecks {
		require.False(t, seen[c.ClusterName], "cluster %q is sent twice", c.ClusterName)
		seen[c.ClusterName] = true
		require.NoError(t, guard(c))
		require.NoError(t, harmless(c))
	}
	_, err := proto.Marshal(spec)
	require.NoError(t, err)
	again := probe.Derive(world, rules, derived.Probes)
	require.Len(t, again.Probes, len(derived.Probes), "deriving again gives the same")
	require.Len(t, again.Problems, len(derived.Problems))
	return len(spec.ClusterHealthChecks)
}

// TestAnyMetaAndConfigLeadToSpecifiersThatHurtNobody: whatever a service owner
// or an operator types, what is sent satisfies the protos' own rules and ours,
// and nothing is left for the last guard.
func TestAnyMetaAndConfigLeadToSpecifiersThatHurtNobody(t *testing.T) {
	var sent int
	rapid.Check(t, func(t *rapid.T) {
		world, rules := anyWorld(t)
		sent += hurtsNobody(t, world, rules)
	})
	assert.Greater(t, sent, 20, "the generator makes probes that are sent")
}

// TestTheGuardSeesWhatWouldHarm breaks a good cluster in every way that the
// facts tell of.
func TestTheGuardSeesWhatWouldHarm(t *testing.T) {
	_, probes := world(nodeOnly, map[string]map[string]string{
		"http": {"hds": "http"}, "tcp": asTCP, "grpc": {"hds": "grpc"}, "tls": {"hds": "http", "hds_tls": "true", "hds_tls_skip_verify": "true"},
	})
	for id, p := range probes {
		c, err := buildCluster(p)
		require.NoError(t, err)
		require.NoError(t, guard(c), id)
	}
	for name, harm := range harms() {
		t.Run(name, func(t *testing.T) {
			p := probes["http"]
			if strings.HasPrefix(name, "tls") {
				p = probes["tls"]
			}
			c, err := buildCluster(p)
			require.NoError(t, err)
			harm(c)
			assert.Error(t, guard(c))
		})
	}
}

func hostOf(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}}
}
