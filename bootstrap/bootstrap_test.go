package bootstrap

import (
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3" // what Any holds
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

const socket = "unix:///run/consul-hds/hds.sock"

// sidecar is like what `consul connect envoy -bootstrap` prints, in its mixed
// spelling, with a token.
const sidecar = `{
  "node": {"cluster": "web", "id": "web-1-sidecar-proxy", "metadata": {"big": 12345678901234567890.10, "my_key": 1, "myKey": 2}},
  "static_resources": {"clusters": [{"name": "local_agent", "loadAssignment": {"clusterName": "local_agent"}}]},
  "stats_config": {"stats_tags": [{"regex": "^(?:<a>&b)\\.", "tag_name": "t"}]},
  "dynamic_resources": {"ads_config": {"grpc_services": {
    "initial_metadata": [{"key": "x-other", "value": "1"}, {"key": "x-consul-token", "value": "secret"}]}}}
}`

func add(t *testing.T, in string, o Options) string {
	t.Helper()
	a, err := New(o)
	require.NoError(t, err)
	out, err := a.AddTo([]byte(in))
	require.NoError(t, err)
	return string(out)
}

func TestAllElseStaysAsItIs(t *testing.T) {
	out := add(t, sidecar, Options{Address: socket})
	for _, kept := range []string{
		`"big": 12345678901234567890.10`, `"my_key": 1`, `"myKey": 2`, `"^(?:<a>&b)\\."`, `"id": "web-1-sidecar-proxy"`,
		`"clusterName": "local_agent"`, `"path": "/run/consul-hds/hds.sock"`,
	} {
		assert.Contains(t, out, kept)
	}
	assert.Equal(t, 1, strings.Count(out, "secret"), "a token goes nowhere unless asked for")
	assert.Less(t, strings.Index(out, `"name": "local_agent"`), strings.Index(out, `"name": "consul_hds"`))
}

func TestAddingTwiceIsAddingOnce(t *testing.T) {
	once := add(t, sidecar, Options{Address: socket, ReuseToken: true})
	assert.Equal(t, once, add(t, once, Options{Address: socket, ReuseToken: true}))
	assert.Equal(t, add(t, sidecar, Options{Address: "10.0.0.1:1"}), add(t, once, Options{Address: "10.0.0.1:1"}))
}

func TestTheOtherSpellingIsReplacedToo(t *testing.T) {
	out := add(t, `{"node": {"id": "a"}, "hdsConfig": {"grpcServices": {"envoyGrpc": {"clusterName": "consul_hds"}}},
		"staticResources": {"clusters": [{"name": "consul_hds", "old": 1}, {"name": "b"}]}}`, Options{Address: socket})
	assert.Contains(t, out, `"hdsConfig"`)
	assert.Contains(t, out, `"staticResources"`)
	assert.NotContains(t, out, `"hds_config"`)
	assert.NotContains(t, out, `"static_resources"`)
	assert.NotContains(t, out, `"old"`)
	assert.Contains(t, out, `"name": "b"`)
}

func TestYAMLIsTakenToo(t *testing.T) {
	const yaml = "node: &n {id: node-envoy}\nadmin:\n  address: {socket_address: {address: 127.0.0.1, port_value: 19000}}\n"
	const json = `{"node": {"id": "node-envoy"}, "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 19000}}}}`
	assert.Equal(t, add(t, json, Options{Address: socket}), add(t, yaml, Options{Address: socket}))
}

func TestTheNodeID(t *testing.T) {
	assert.Contains(t, add(t, `{}`, Options{Address: socket, NodeID: "n"}), `"id": "n"`)
	assert.Contains(t, add(t, `{"node": {"id": "old", "cluster": "c"}}`, Options{Address: socket, NodeID: "n"}), `"id": "n"`)
	add(t, sidecar, Options{Address: socket, NodeID: "web-1-sidecar-proxy"})
}

func TestTokens(t *testing.T) {
	metadata := func(value string) string {
		return "\"initial_metadata\": [\n          {\n            \"key\": \"x-consul-token\",\n            \"value\": \"" + value + "\""
	}
	assert.Contains(t, add(t, sidecar, Options{Address: socket, ReuseToken: true}), metadata("secret"))
	assert.Contains(t, add(t, sidecar, Options{Address: socket, Token: "mine"}), metadata("mine"))
	for _, o := range []Options{{Address: socket, ReuseToken: true}, {Address: socket, Token: "t"}} {
		a, err := New(o)
		require.NoError(t, err)
		_, err = a.Overlay()
		assert.ErrorContains(t, err, "an overlay must not hold a token")
	}
	for o, want := range map[Options]bool{
		{Address: socket, Token: "t"}:                                false,
		{Address: "[::1]:1", Token: "t"}:                             false,
		{Address: "10.0.0.1:1"}:                                      false,
		{Address: "10.0.0.1:1", Token: "t"}:                          true,
		{Address: "hds.internal:1", ReuseToken: true}:                true,
		{Address: "10.0.0.1:1", Token: "t", TLS: TLS{CAFile: "/ca"}}: false,
	} {
		a, err := New(o)
		require.NoError(t, err)
		assert.Equal(t, want, a.ExposesToken(), o.Address)
	}
}

// TestTheAdditionIsABootstrap holds the addition against Envoy's own schema.
func TestTheAdditionIsABootstrap(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    []string
	}{
		"socket":   {Options{Address: socket}, []string{`"pipe":{"path":"/run/consul-hds/hds.sock"}`, `"type":"STATIC"`}},
		"node":     {Options{Address: socket, NodeID: "n"}, []string{`"node":{"id":"n"}`}},
		"address":  {Options{Address: "[::ffff:10.0.0.1]:8510"}, []string{`{"address":"10.0.0.1","port_value":8510}`, `"type":"STATIC"`}},
		"loopback": {Options{Address: "localhost:8510"}, []string{`"address":"127.0.0.1"`, `"type":"STATIC"`}},
		"name":     {Options{Address: "hds.internal:8510"}, []string{`"address":"hds.internal"`, `"type":"STRICT_DNS"`}},
		"TLS": {Options{Address: "hds.internal.:8510", TLS: TLS{CAFile: "/ca", CertFile: "/cert", KeyFile: "/key"}},
			[]string{`"sni":"hds.internal"`, `[{"matcher":{"exact":"hds.internal"},"san_type":"DNS"}]`, `"private_key":{"filename":"/key"}`}},
		"TLS of an address": {Options{Address: "[0::1]:8510", TLS: TLS{CAFile: "/ca"}}, []string{`[{"matcher":{"exact":"::1"},"san_type":"IP_ADDRESS"}]`}},
		"TLS of a name":     {Options{Address: "127.0.0.1:8510", TLS: TLS{CAFile: "/ca", ServerName: "hds"}}, []string{`"sni":"hds"`, `"alpn_protocols":["h2"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := New(c.options)
			require.NoError(t, err)
			out, err := a.Overlay()
			require.NoError(t, err)
			for _, want := range c.want {
				assert.Contains(t, string(out), want)
			}
			assert.Equal(t, 1, strings.Count(string(out), "\n"), "one line")
			var b bootstrapv3.Bootstrap
			require.NoError(t, protojson.Unmarshal(out, &b))
			assert.NoError(t, b.ValidateAll())
		})
	}
}

func TestBadOptions(t *testing.T) {
	tls := func(t TLS) Options { return Options{Address: "10.0.0.1:1", TLS: t} }
	for want, list := range map[string][]Options{
		"is no address to connect to": {
			{}, {Address: "web"}, {Address: "web:"}, {Address: "web:0"}, {Address: "web:65536"}, {Address: "web:+1"}, {Address: ":1"},
			{Address: "a b:1"}, {Address: "127.1:1"}, {Address: "224.0.0.1:1"}, {Address: "[fe80::1%eth0]:1"}, {Address: "http://a:1"},
		},
		"socket path":                            {{Address: "unix://"}, {Address: "unix://a"}, {Address: "unix:///a/../b"}, {Address: "unix:///" + strings.Repeat("a", 107)}},
		"means every address":                    {{Address: "0.0.0.0:1"}, {Address: "[::]:1"}},
		"node.id":                                {{Address: socket, NodeID: "a\nb"}, {Address: socket, NodeID: strings.Repeat("a", 1025)}},
		"not one line of visible ASCII":          {{Address: socket, Token: "a\nb"}, {Address: socket, Token: "é"}, {Address: socket, Token: "%%"}},
		"not both":                               {{Address: socket, Token: "a", ReuseToken: true}},
		"TLS is for TCP":                         {{Address: socket, TLS: TLS{CAFile: "/ca"}}},
		"TLS needs a CA file":                    {tls(TLS{ServerName: "a"}), tls(TLS{CertFile: "/c", KeyFile: "/k"})},
		"need each other":                        {tls(TLS{CAFile: "/ca", CertFile: "/c"}), tls(TLS{CAFile: "/ca", KeyFile: "/k"})},
		"absolute paths":                         {tls(TLS{CAFile: "ca"}), tls(TLS{CAFile: "/ca", CertFile: "c", KeyFile: "/k"})},
		"a host name or an IP address, at most ": {tls(TLS{CAFile: "/ca", ServerName: "a b"})},
	} {
		for _, o := range list {
			_, err := New(o)
			assert.ErrorContains(t, err, want, "%+v", o)
		}
	}
}

func TestBadBootstraps(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "the bootstrap is empty",
		" \n":                               "the bootstrap is empty",
		"\xff":                              "not valid UTF-8",
		"{\"a\": \"secret\",\n \"b\": ]\n}": "neither JSON nor YAML: line 2: invalid character ']'",
		"a: b\nc: secret: d\n":              "neither JSON nor YAML: line 2: mapping values are not allowed",
		"a: {{ secret }}":                   "neither JSON nor YAML: it cannot be read",
		"a: 1\na: 2\n":                      `line 2: key "a" already set in map`,
		`{"a": [{"b": 1, "b": "secret"}]}`:  `the key "b" twice`,
		"null":                              "is not an object",
		"[]":                                "is not an object",
		"secret":                            "is not an object",
		"{}":                                "has no node.id, by which",
		`{"node": {"id": ""}}`:              "has no node.id, by which",
		`{"node": []}`:                      "node of the bootstrap is not an object",
		`{"node": {"id": 1}}`:               "node.id of the bootstrap is not a text",
		`{"node": {"id": "a\u0000"}}`:       "is not allowed",
		`{"node": {"id": "a"}, "static_resources": 1}`:                                                         "static_resources of the bootstrap is not an object",
		`{"node": {"id": "a"}, "static_resources": {}, "staticResources": {}}`:                                 "both static_resources and staticResources",
		`{"node": {"id": "a"}, "hds_config": {"grpc_services": [{"envoy_grpc": {"cluster_name": "secret"}}]}}`: "does not lead to the cluster consul_hds",
		`{"node": {"id": "a"}, "hds_config": {"ads": {}}}`:                                                     "does not lead to the cluster consul_hds",
		`{"node": {"id": "a"}, "hdsConfig": 1}`:                                                                "hdsConfig of the bootstrap is not an object",
	} {
		a, err := New(Options{Address: socket})
		require.NoError(t, err)
		_, err = a.AddTo([]byte(in))
		require.ErrorContains(t, err, want, in)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func TestABootstrapOfConsulKeepsItsID(t *testing.T) {
	a, err := New(Options{Address: socket, NodeID: "other"})
	require.NoError(t, err)
	_, err = a.AddTo([]byte(strings.Replace(sidecar, `"secret"`, `""`, 1)))
	assert.ErrorContains(t, err, `is Consul's, for the proxy "web-1-sidecar-proxy", which must keep its node.id`)
}

func TestATokenThatIsNotThere(t *testing.T) {
	a, err := New(Options{Address: socket, ReuseToken: true})
	require.NoError(t, err)
	for _, in := range []string{`{"node": {"id": "a"}}`, strings.Replace(sidecar, `"secret"`, `""`, 1)} {
		_, err = a.AddTo([]byte(in))
		assert.ErrorContains(t, err, "carries no token")
	}
	_, err = a.AddTo([]byte(strings.Replace(sidecar, `"secret"`, `"a b"`, 1)))
	assert.ErrorContains(t, err, "visible ASCII")
}
