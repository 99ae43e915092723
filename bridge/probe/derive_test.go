package probe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

var defaults = Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: Auto}

func rules(services ...Service) *Rules { return &Rules{Defaults: defaults, Services: services} }

func web(meta map[string]string) *catalog.Instance {
	return &catalog.Instance{ID: "web-1", Service: "web", Address: "127.0.0.1", Port: 8080, Meta: meta}
}

func sidecar(id, dest, address string, port int) *catalog.Instance {
	return &catalog.Instance{ID: id, Service: "web-sidecar-proxy", Kind: catalog.KindConnectProxy, Address: "10.0.0.1", Port: 21000,
		Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: dest, LocalServiceAddress: address, LocalServicePort: port}}
}

// derive derives without host names and files.
func derive(s *catalog.Snapshot, r *Rules, last []*Probe) Result {
	return Derive(World{Snapshot: s}, r, last)
}

func snapshot(instances ...*catalog.Instance) *catalog.Snapshot {
	s := &catalog.Snapshot{Node: catalog.Node{Name: "n1", Address: "10.0.0.1"}, Instances: map[string]*catalog.Instance{}, Checks: map[string]*catalog.Check{}}
	for _, i := range instances {
		s.Instances[i.ID] = i
		if i.Kind == catalog.KindConnectProxy { // as Consul does for each sidecar_service
			s.Checks["service:"+i.ID] = &catalog.Check{ServiceID: i.ID, Type: catalog.CheckTypeAlias}
		}
	}
	return s
}

// one derives the only probe there is, without a problem.
func one(t *testing.T, s *catalog.Snapshot, r *Rules) *Probe {
	t.Helper()
	got := derive(s, r, nil)
	require.Empty(t, got.Problems)
	require.Len(t, got.Probes, 1)
	return got.Probes[0]
}

func TestNothingIsProbedByDefault(t *testing.T) {
	side := sidecar("web-1-sidecar-proxy", "web-1", "127.0.0.1", 8080)
	side.Meta = map[string]string{"hds": "http"}
	gateway := &catalog.Instance{ID: "gw", Service: "gw", Kind: "ingress-gateway", Port: 1, Meta: map[string]string{"hds": "tcp"}}
	got := derive(snapshot(web(nil), side, gateway), rules(Service{Name: "web-sidecar-proxy", Checks: []Check{{Name: "x", Settings: Settings{Kind: TCP}}}}, Service{Name: "gw", Checks: []Check{{Name: "x", Settings: Settings{Kind: TCP}}}}), nil)
	assert.Equal(t, Result{}, got)
}

func TestMetaAsksForAProbe(t *testing.T) {
	p := one(t, snapshot(web(map[string]string{"hds": "HTTP", "other": "x"})), rules())
	assert.Equal(t, "hds:web-1", p.CheckID)
	assert.Equal(t, Settings{
		Kind: HTTP, Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: Auto,
		Path: "/", Method: "GET", Host: "127.0.0.1:8080", ExpectedStatuses: []StatusRange{{200, 299}},
	}, p.Settings)
	assert.Equal(t, "127.0.0.1:8080", p.Target.String())
	assert.True(t, p.ByNode)
	assert.Equal(t, "Envoy HDS: http /", p.Title())
	assert.Equal(t, "http GET http://127.0.0.1:8080/", p.Subject())
}

func TestEveryMetaKeyIsRead(t *testing.T) {
	p := one(t, snapshot(web(map[string]string{
		"hds": " http ", "hds_path": " /ready?x=1 ", "hds_method": "head", "hds_host": "web.example:80",
		"hds_expected_statuses": "200-204, 301", "hds_port": "9090", "hds_address": "::ffff:127.0.0.2",
		"hds_interval": "500ms", "hds_timeout": "2s", "hds_healthy_threshold": "3", "hds_unhealthy_threshold": "4",
		"hds_observer": "Node", "hds_mode": "enforce", "hds_tls": "false", "hds_tls_server_name": " ",
	})), rules())
	assert.Equal(t, Settings{
		Kind: HTTP, Interval: 500 * time.Millisecond, Timeout: 2 * time.Second, HealthyThreshold: 3, UnhealthyThreshold: 4, Observer: Node, Mode: Enforce,
		Address: "::ffff:127.0.0.2", Port: 9090, Path: "/ready?x=1", Method: "HEAD", Host: "web.example:80",
		ExpectedStatuses: []StatusRange{{200, 204}, {301, 301}},
	}, p.Settings)
	assert.Equal(t, "127.0.0.2:9090", p.Target.String(), "mapped addresses are unmapped")
}

func TestBadMetaIsAProblemThatSaysWhatIsAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		meta map[string]string
		want string
	}{
		"kind":            {map[string]string{"hds": "htpp"}, `meta hds: "htpp" is not allowed: http, tcp, grpc or off`},
		"unknown key":     {map[string]string{"hds": "tcp", "hds_prot": "1"}, "meta hds_prot: no such key: hds or one of hds_address, "},
		"empty unknown":   {map[string]string{"hds": "tcp", "hds_prot": ""}, "meta hds_prot: no such key"},
		"no kind":         {map[string]string{"hds_path": "/x"}, `meta hds_path is set, but neither meta hds nor a config check "default"`},
		"misfit":          {map[string]string{"hds": "tcp", "hds_path": "/x"}, "meta hds_path: a tcp probe has no such attribute"},
		"path":            {map[string]string{"hds": "http", "hds_path": "x"}, `meta hds_path: "x" is not allowed: it must begin with /`},
		"path space":      {map[string]string{"hds": "http", "hds_path": "/a b"}, "visible ASCII"},
		"path CRLF":       {map[string]string{"hds": "http", "hds_path": "/a\r\nX: y"}, "visible ASCII"},
		"path fragment":   {map[string]string{"hds": "http", "hds_path": "/a#b"}, "without #"},
		"path unicode":    {map[string]string{"hds": "http", "hds_path": "/é"}, "visible ASCII"},
		"method":          {map[string]string{"hds": "http", "hds_method": "CONNECT"}, "one of GET, HEAD, POST"},
		"host":            {map[string]string{"hds": "http", "hds_host": "a b"}, "a host name or address"},
		"host CRLF":       {map[string]string{"hds": "http", "hds_host": "a\r\nb"}, "a host name or address"},
		"statuses":        {map[string]string{"hds": "http", "hds_expected_statuses": "200-600"}, "from 100 to 599"},
		"statuses turned": {map[string]string{"hds": "http", "hds_expected_statuses": "299-200"}, "from 100 to 599"},
		"statuses text":   {map[string]string{"hds": "http", "hds_expected_statuses": "2xx"}, "from 100 to 599"},
		"statuses empty":  {map[string]string{"hds": "http", "hds_expected_statuses": "200,,201"}, "from 100 to 599"},
		"port 0":          {map[string]string{"hds": "http", "hds_port": "0"}, "meta hds_port: 0 is not allowed: from 1 to 65535"},
		"port 65536":      {map[string]string{"hds": "http", "hds_port": "65536"}, "from 1 to 65535"},
		"port text":       {map[string]string{"hds": "http", "hds_port": "http"}, `"http" is not a whole number`},
		"port huge":       {map[string]string{"hds": "http", "hds_port": "99999999999999999999"}, "is not a whole number"},
		"address old":     {map[string]string{"hds": "http", "hds_address": "127.1"}, "neither an IP address"},
		"address zone":    {map[string]string{"hds": "http", "hds_address": "fe80::1%eth0"}, "neither an IP address"},
		"address port":    {map[string]string{"hds": "http", "hds_address": "127.0.0.1:80"}, "neither an IP address"},
		"address octal":   {map[string]string{"hds": "http", "hds_address": "0177.0.0.1"}, "neither an IP address"},
		"address all":     {map[string]string{"hds": "http", "hds_address": "0.0.0.0"}, "cannot be probed"},
		"address many":    {map[string]string{"hds": "http", "hds_address": "224.0.0.1"}, "cannot be probed"},
		"interval unit":   {map[string]string{"hds": "http", "hds_interval": "5"}, "a number with a unit, such as 500ms"},
		"interval tiny":   {map[string]string{"hds": "http", "hds_interval": "1ms"}, "from 100ms to 1h"},
		"interval minus":  {map[string]string{"hds": "http", "hds_interval": "-1s"}, "from 100ms to 1h"},
		"timeout huge":    {map[string]string{"hds": "http", "hds_timeout": "2h"}, "from 100ms to 1h"},
		"timeout more":    {map[string]string{"hds": "http", "hds_timeout": "9999999999h"}, "is not a duration"},
		"threshold 0":     {map[string]string{"hds": "http", "hds_healthy_threshold": "0"}, "from 1 to 1000"},
		"threshold huge":  {map[string]string{"hds": "http", "hds_unhealthy_threshold": "4294967295"}, "from 1 to 1000"},
		"grace":           {map[string]string{"hds": "http", "hds_unhealthy_threshold": "1000"}, "at most 10m"},
		"observer":        {map[string]string{"hds": "http", "hds_observer": "me"}, "auto, sidecar or node"},
		"mode":            {map[string]string{"hds": "http", "hds_mode": "dry"}, "enforce or shadow"},
		"tls word":        {map[string]string{"hds": "http", "hds_tls": "yes"}, "true or false"},
		"tls no CA":       {map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_server_name": "x"}, "would verify nothing"},
		"tls name":        {map[string]string{"hds": "http", "hds_tls_server_name": "x"}, "TLS is not"},
		"tls bad name":    {map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_server_name": "a b"}, "a host name or an IP address"},
		"tls long name":   {map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_server_name": strings.Repeat("a.", 127) + "aa"}, "at most 253 bytes"},
		"grpc misfit":     {map[string]string{"hds": "tcp", "hds_grpc_service": "x"}, "a tcp probe has no such attribute"},
		"grpc path":       {map[string]string{"hds": "grpc", "hds_path": "/x"}, "a grpc probe has no such attribute"},
		"grpc service":    {map[string]string{"hds": "grpc", "hds_grpc_service": "a\nb"}, "without control characters"},
	} {
		t.Run(name, func(t *testing.T) {
			got := derive(snapshot(web(c.meta)), rules(), nil)
			assert.Empty(t, got.Probes)
			require.Len(t, got.Problems, 1)
			assert.Equal(t, "web-1", got.Problems[0].ServiceID)
			assert.Equal(t, SourceMeta, got.Problems[0].Source)
			assert.Contains(t, got.Problems[0].Message, c.want)
		})
	}
}

func TestEveryFaultOfAMetaIsTold(t *testing.T) {
	got := derive(snapshot(web(map[string]string{"hds": "http", "hds_port": "0", "hds_interval": "1"})), rules(), nil)
	require.Len(t, got.Problems, 2)
}

func TestOffBeatsEverything(t *testing.T) {
	r := rules(Service{Name: "web", Checks: []Check{{Name: "ready", Settings: Settings{Kind: TCP}}}})
	assert.Equal(t, Result{}, derive(snapshot(web(map[string]string{"hds": "Off", "hds_port": "0"})), r, nil))
}

func TestConfigAsksForSeveralProbes(t *testing.T) {
	r := rules(Service{Name: "web", Checks: []Check{
		{Name: "ready", Settings: Settings{Kind: HTTP, Path: "/ready", Interval: 2 * time.Second}}, {Name: "db", Settings: Settings{Kind: TCP, Port: 5432}},
	}})
	got := derive(snapshot(web(nil)), r, nil)
	require.Empty(t, got.Problems)
	require.Len(t, got.Probes, 2)
	assert.Equal(t, "hds.db:web-1", got.Probes[0].CheckID)
	assert.Equal(t, "127.0.0.1:5432", got.Probes[0].Target.String())
	assert.Equal(t, "Envoy HDS: tcp 5432", got.Probes[0].Title())
	assert.Equal(t, "hds.ready:web-1", got.Probes[1].CheckID)
	assert.Equal(t, 2*time.Second, got.Probes[1].Settings.Interval)
}

func TestWhichServiceBlockApplies(t *testing.T) {
	block := func(name string) Service {
		return Service{Name: name, Checks: []Check{{Name: "c", Settings: Settings{Kind: TCP}}}}
	}
	chosen := func(service string, names ...string) string {
		var blocks []Service
		for _, n := range names {
			b := block(n)
			b.Checks[0].Settings.Path = n
			blocks = append(blocks, b)
		}
		checks := rules(blocks...).checksOf(service)
		if len(checks) == 0 {
			return ""
		}
		return checks[0].Settings.Path
	}
	assert.Equal(t, "web", chosen("web", "w*b-long*", "web*", "web"), "an exact name beats a glob")
	assert.Equal(t, "web-*", chosen("web-a", "w*", "web-*", "*"), "a longer glob beats a shorter one")
	assert.Equal(t, "*b-a", chosen("web-a", "web*", "w*-a", "*b-a"), "equal ones go by order of name")
	assert.Equal(t, "", chosen("api", "web*"))
}

func TestMetaRefinesTheConfigsDefaultCheck(t *testing.T) {
	r := rules(Service{Name: "web", Checks: []Check{
		{Name: DefaultName, Settings: Settings{Kind: HTTP, Path: "/ready", Method: "HEAD", Port: 9000, Interval: 3 * time.Second}},
		{Name: "db", Settings: Settings{Kind: TCP, Port: 5432}},
	}})
	got := derive(snapshot(web(map[string]string{"hds_path": "/x", "hds_timeout": "2s"})), r, nil)
	require.Empty(t, got.Problems)
	require.Len(t, got.Probes, 2)
	s := got.Probes[1].Settings
	assert.Equal(t, []any{"/x", "HEAD", 9000, 3 * time.Second, 2 * time.Second}, []any{s.Path, s.Method, s.Port, s.Interval, s.Timeout})

	got = derive(snapshot(web(map[string]string{"hds": "tcp"})), r, nil)
	require.Empty(t, got.Problems)
	s = got.Probes[1].Settings
	assert.Equal(t, Settings{Kind: TCP, Interval: 3 * time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: Auto}, s,
		"another kind replaces the kind block whole")
	assert.Equal(t, "127.0.0.1:8080", got.Probes[1].Target.String())
}

func TestABadMetaLeavesOtherProbesAlone(t *testing.T) {
	r := rules(Service{Name: "web", Checks: []Check{{Name: DefaultName, Settings: Settings{Kind: HTTP}}, {Name: "db", Settings: Settings{Kind: TCP}}}})
	got := derive(snapshot(web(map[string]string{"hds_port": "0"})), r, nil)
	require.Len(t, got.Problems, 1)
	require.Len(t, got.Probes, 1)
	assert.Equal(t, "hds.db:web-1", got.Probes[0].CheckID)
}

func TestTheLastGoodDefinitionGoesOn(t *testing.T) {
	good := derive(snapshot(web(map[string]string{"hds": "http"})), rules(), nil)
	typo := snapshot(web(map[string]string{"hds": "http", "hds_port": "x"}))
	got := derive(typo, rules(), good.Probes)
	require.Len(t, got.Problems, 1)
	require.Equal(t, good.Probes, got.Probes)
	assert.Equal(t, good.Probes, derive(typo, rules(), got.Probes).Probes, "and on")

	gone := derive(snapshot(), rules(), got.Probes)
	assert.Equal(t, Result{}, gone, "but not without the instance")
	assert.Empty(t, derive(snapshot(web(map[string]string{"hds_path": "/"})), rules(), nil).Probes)

	noAddress := web(map[string]string{"hds": "http"})
	noAddress.Address = "not a host"
	got = derive(snapshot(noAddress), rules(), good.Probes)
	require.Len(t, got.Problems, 1)
	assert.Equal(t, SourceConsul, got.Problems[0].Source)
	assert.Equal(t, good.Probes, got.Probes)
}

func TestWhereToProbe(t *testing.T) {
	meta := map[string]string{"hds": "tcp"}
	at := func(change func(*catalog.Instance), more ...*catalog.Instance) string {
		i := web(meta)
		change(i)
		got := derive(snapshot(append(more, i)...), rules(), nil)
		if len(got.Problems) > 0 {
			return got.Problems[0].Message
		}
		return got.Probes[0].Target.String()
	}
	assert.Equal(t, "10.0.0.1:8080", at(func(i *catalog.Instance) { i.Address = "" }), "the node's address")
	assert.Equal(t, "unix:///run/a.sock", at(func(i *catalog.Instance) { i.SocketPath = "/run/a.sock" }))
	assert.Contains(t, at(func(i *catalog.Instance) { i.SocketPath = "run/a.sock" }), "absolute")
	assert.Contains(t, at(func(i *catalog.Instance) { i.SocketPath = "/" + strings.Repeat("a", 107) }), "at most 107 bytes")
	assert.Equal(t, "unix:///"+strings.Repeat("a", 106), at(func(i *catalog.Instance) { i.SocketPath = "/" + strings.Repeat("a", 106) }))
	assert.Contains(t, at(func(i *catalog.Instance) { i.Port = 0 }), "no port")
	assert.Contains(t, at(func(i *catalog.Instance) { i.Port = 70000 }), "from 1 to 65535")
	assert.Contains(t, at(func(i *catalog.Instance) { i.Address = "db local" }), "neither an IP address")
	assert.Equal(t, "127.0.0.1:9000", at(func(*catalog.Instance) {}, sidecar("s", "web-1", "127.0.0.1", 9000)), "what the sidecar knows")
	assert.Equal(t, "127.0.0.1:8080", at(func(*catalog.Instance) {}, sidecar("s", "web-1", "", 0)), "Consul's defaults")
	side := sidecar("s", "web-1", "", 0)
	side.Proxy.LocalServiceSocketPath = "/run/b.sock"
	assert.Equal(t, "unix:///run/b.sock", at(func(*catalog.Instance) {}, side))

	s := snapshot(web(meta))
	s.Node.Address = ""
	s.Instances["web-1"].Address = ""
	assert.Contains(t, derive(s, rules(), nil).Problems[0].Message, "consul.node_address")
}

func TestWhoObserves(t *testing.T) {
	side := sidecar("web-1-sidecar-proxy", "web-1", "127.0.0.1", 8080)
	p := one(t, snapshot(web(map[string]string{"hds": "tcp"}), side), rules())
	assert.Equal(t, []string{"web-1-sidecar-proxy"}, p.Sidecars)
	assert.False(t, p.ByNode, "never both")
	p = one(t, snapshot(web(map[string]string{"hds": "tcp", "hds_observer": "node"}), side), rules())
	assert.Empty(t, p.Sidecars)
	assert.True(t, p.ByNode)
	p = one(t, snapshot(web(map[string]string{"hds": "tcp", "hds_observer": "sidecar"})), rules())
	assert.Empty(t, p.Sidecars)
	assert.False(t, p.ByNode, "none is registered")

	foreign := sidecar("a", "web-1", "127.0.0.1", 9999)
	foreign.Proxy.DestinationServiceName = "other"
	got := derive(snapshot(web(map[string]string{"hds": "tcp"}), side, foreign), rules(), nil)
	assert.Equal(t, "127.0.0.1:8080", got.Probes[0].Target.Addr.String())
	assert.Equal(t, []string{"web-1-sidecar-proxy"}, got.Probes[0].Sidecars)
	require.Len(t, got.Problems, 1)
	assert.Contains(t, got.Problems[0].Message, `proxy "a" is not taken for a sidecar`)

	got = derive(snapshot(web(map[string]string{"hds": "tcp"}), side, sidecar("z", "web-1", "127.0.0.1", 9999)), rules(), nil)
	assert.Equal(t, []string{"web-1-sidecar-proxy"}, got.Probes[0].Sidecars)
	require.Len(t, got.Problems, 1)
	assert.Contains(t, got.Problems[0].Message, `sidecar "z" does not observe`)
}

func TestASidecarWithoutAliasIsAProblem(t *testing.T) {
	s := snapshot(web(map[string]string{"hds": "tcp"}), sidecar("side", "web-1", "127.0.0.1", 8080))
	s.Checks = map[string]*catalog.Check{"own": {ServiceID: "side", Type: "http"}, "other": {ServiceID: "web-1", Type: catalog.CheckTypeAlias}}
	got := derive(s, rules(), nil)
	require.Len(t, got.Problems, 1)
	assert.Contains(t, got.Problems[0].Message, `sidecar "side" has no alias check`)
	assert.Len(t, got.Probes, 1, "it is probed all the same")
	s.Instances["web-1"].Meta = nil
	assert.Empty(t, derive(s, rules(), nil).Problems, "of what is not probed nothing is said")
}

func TestTheClusterNamesTheDefinition(t *testing.T) {
	name := func(meta map[string]string, more ...*catalog.Instance) string {
		return one(t, snapshot(append(more, web(meta))...), rules()).Cluster
	}
	base := name(map[string]string{"hds": "http"})
	assert.Regexp(t, `^hds:web-1@[0-9a-f]{8}$`, base)
	assert.Equal(t, base, name(map[string]string{"hds": "HTTP", "hds_path": "/", "hds_interval": "1000ms"}))
	assert.NotEqual(t, base, name(map[string]string{"hds": "http", "hds_path": "/x"}))
	assert.NotEqual(t, base, name(map[string]string{"hds": "http", "hds_timeout": "2s"}))
	assert.Equal(t, base, name(map[string]string{"hds": "http", "hds_observer": "node"}), "who observes is no part of it")
	assert.NotEqual(t, base, name(map[string]string{"hds": "http"}, sidecar("s", "web-1", "127.0.0.1", 1)), "another target is")
}

func TestServiceIDsThatConsulsAPIWouldMisread(t *testing.T) {
	for _, id := range []string{"a//b", "a/../b", "a/.", "a\nb", "a\x00b", strings.Repeat("a", 1025), "a\xffb", "a\u202eb", "a\u00a0b"} {
		i := web(map[string]string{"hds": "tcp"})
		i.ID = id
		got := derive(snapshot(i), rules(), nil)
		assert.Empty(t, got.Probes, "%q", id)
		require.Len(t, got.Problems, 1, "%q", id)
		assert.Equal(t, SourceConsul, got.Problems[0].Source)
	}
	for _, id := range []string{"a:b", "a/b", "./a", "a b", "a%2Fb", "a?b", `a#"b`, "é", strings.Repeat("a", 1024)} {
		i := web(map[string]string{"hds": "tcp"})
		i.ID = id
		assert.Len(t, derive(snapshot(i), rules(), nil).Probes, 1, "%q", id)
	}
}

func TestGrace(t *testing.T) {
	s := defaults
	assert.Equal(t, 3050*time.Millisecond, Grace(s), "two time-outs and one interval with its jitter")
	s.UnhealthyThreshold = 1
	assert.Equal(t, time.Second, Grace(s))
}
