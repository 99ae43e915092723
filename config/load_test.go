package config

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// TestLayers sets one attribute in each pair of layers: the higher one wins,
// and is named as the source.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "a.hcl", "consul {\n  namespace = \"file\"\n}\n")
	later := writeFile(t, dir, "b.hcl", "consul {\n  namespace = \"later\"\n}\n")
	empty := writeFile(t, dir, "c.hcl", "consul {\n  namespace = \"\"\n  partition = null\n}\n")
	layers := []struct {
		value, source string
		add           func(*Options)
	}{
		{"consul", "the variable CONSUL_NAMESPACE", func(o *Options) { o.Environ = append(o.Environ, "CONSUL_NAMESPACE=consul") }},
		{"file", file + ":2", func(o *Options) { o.Paths = append(o.Paths, file) }},
		{"later", later + ":2", func(o *Options) { o.Paths = append(o.Paths, later) }},
		{"variable", "the variable CONSUL_HDS_CONSUL_NAMESPACE", func(o *Options) {
			o.Environ = append(o.Environ, "CONSUL_HDS_CONSUL_NAMESPACE= variable ")
		}},
		{"flag", "the flag -consul-namespace", func(o *Options) { o.Flags = map[string]string{"consul.namespace": "flag"} }},
	}
	for i, high := range layers {
		for _, low := range layers[:i+1] {
			var o Options
			low.add(&o)
			high.add(&o)
			o.Paths = append(o.Paths, empty)
			o.Environ = append(o.Environ, "CONSUL_HDS_CONSUL_PARTITION=")
			loaded, diags := Load(o)
			require.Empty(t, diags)
			assert.Equal(t, high.value, loaded.Config.Consul.Namespace, "over %s", low.value)
			assert.Equal(t, high.source, loaded.Sources["consul.namespace"].String())
			assert.Equal(t, "default", loaded.Sources["consul.partition"].String())
		}
	}
}

func TestConsulVariables(t *testing.T) {
	loaded, diags := Load(Options{Environ: []string{
		"CONSUL_HTTP_ADDR=10.0.0.1:8501", "CONSUL_HTTP_TOKEN_FILE=/t", "CONSUL_NAMESPACE=ns", "CONSUL_PARTITION=ap",
		"CONSUL_CACERT=/ca", "CONSUL_CLIENT_CERT=/cert", "CONSUL_CLIENT_KEY=/key", "CONSUL_TLS_SERVER_NAME=name",
		"CONSUL_HTTP_SSL_VERIFY=false", "CONSUL_HTTP_SSL=true", "CONSUL_HTTP_AUTH=a:b", "CONSUL_CAPATH=/ca.d",
	}})
	require.Empty(t, diags)
	want := Default().Consul
	want.Address, want.TokenFile, want.Namespace, want.Partition = "https://10.0.0.1:8501", "/t", "ns", "ap"
	want.TLS = ConsulTLS{CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", ServerName: "name", SkipVerify: true}
	assert.Equal(t, want, loaded.Config.Consul)

	for address, want := range map[string]string{
		"":                "https://127.0.0.1:8500",
		"unix:///c.sock":  "unix:///c.sock",
		"http://10.1.1.1": "http://10.1.1.1",
	} {
		loaded, diags := Load(Options{Environ: []string{"CONSUL_HTTP_SSL=1"}, Flags: map[string]string{"consul.address": address}})
		require.Empty(t, diags)
		assert.Equal(t, want, loaded.Config.Consul.Address)
	}
}

func TestTokenRule(t *testing.T) {
	dir := t.TempDir()
	token := writeFile(t, dir, "token.hcl", "consul {\n  token = \"from-file\"\n}\n")
	tokenFile := writeFile(t, dir, "token_file.hcl", "consul {\n  token_file = \"/from/file\"\n}\n")
	tests := map[string]struct {
		o           Options
		token, file string
	}{
		"file's token over Consul's token file":   {Options{Paths: []string{token}, Environ: []string{"CONSUL_HTTP_TOKEN_FILE=/env"}}, "from-file", ""},
		"file's token file over Consul's token":   {Options{Paths: []string{tokenFile}, Environ: []string{"CONSUL_HTTP_TOKEN=env"}}, "", "/from/file"},
		"variable's token over file's token file": {Options{Paths: []string{tokenFile}, Environ: []string{"CONSUL_HDS_CONSUL_TOKEN=env"}}, "env", ""},
		"flag over all": {Options{Paths: []string{token}, Environ: []string{"CONSUL_HDS_CONSUL_TOKEN=env"}, Flags: map[string]string{tokenFilePath: "/flag"}}, "", "/flag"},
	}
	for name, test := range tests {
		loaded, diags := Load(test.o)
		require.Empty(t, diags, name)
		assert.Equal(t, test.token, loaded.Config.Consul.Token, name)
		assert.Equal(t, test.file, loaded.Config.Consul.TokenFile, name)
	}
	for _, o := range []Options{
		{Paths: []string{token, tokenFile}},
		{Environ: []string{"CONSUL_HTTP_TOKEN=x", "CONSUL_HTTP_TOKEN_FILE=/x"}},
		{Environ: []string{"CONSUL_HDS_CONSUL_TOKEN=x", "CONSUL_HDS_CONSUL_TOKEN_FILE=/x"}},
	} {
		_, diags := Load(o)
		require.Len(t, diags, 1)
		assert.Contains(t, diags[0].Detail, "only one of token and token_file")
	}
}

// TestDir reads a directory: by name, without other files and subdirectories.
func TestDir(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "20.hcl", "log_level = \"warn\"\nservice \"b\" {\n  check \"x\" {\n    tcp {}\n  }\n}\n")
	writeFile(t, dir, "10.json", `{"log_level": "ERROR", "log_json": true, "service": {"a": {"check": {"x": {"tcp": {}}}}}}`)
	writeFile(t, dir, "30.hcl.bak", "nonsense")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "40.hcl"), 0o700))
	loaded, diags := Load(Options{Paths: []string{dir}})
	require.Empty(t, diags)
	assert.Equal(t, "warn", loaded.Config.LogLevel)
	assert.True(t, loaded.Config.LogJSON)
	require.Len(t, loaded.Config.Services, 2)
	assert.Equal(t, "a", loaded.Config.Services[0].Name)
}

const services = `
hds {
  listen   = ["127.0.0.1:8510", "unix:///run/a.sock"]
  node_ids = ["ingress-*"]
}
consul {
  token = "secret"
}
service "web-*" {
  check "ready" {
    interval            = "2s"
    timeout             = "250ms"
    healthy_threshold   = 3
    unhealthy_threshold = 4
    observer            = "Node"
    mode                = "enforce"
    ca_file             = ""
    http {
      path              = "/ready"
      method            = "head"
      host              = "web"
      address           = "10.0.0.1"
      port              = 80
      expected_statuses = ["200-299", 304, "401"]
      header            = {}
      http2             = false
      body              = ""
    }
  }
  check "db" {
    tcp {
      port = 5432
      address = ""
    }
  }
}
`

// anyPlace leaves the places of attributes out of a comparison.
var anyPlace = cmpopts.IgnoreFields(probe.Check{}, "Places")

func wantServices() []probe.Service {
	return []probe.Service{{Name: "web-*", Checks: []probe.Check{
		{Name: "ready", Settings: probe.Settings{
			Kind: probe.HTTP, Interval: 2 * time.Second, Timeout: 250 * time.Millisecond,
			HealthyThreshold: 3, UnhealthyThreshold: 4, Observer: probe.Node, Mode: probe.Enforce,
			Path: "/ready", Method: "HEAD", Host: "web", Address: "10.0.0.1", Port: 80,
			ExpectedStatuses: []probe.StatusRange{{First: 200, Last: 299}, {First: 304, Last: 304}, {First: 401, Last: 401}},
		}},
		{Name: "db", Settings: probe.Settings{Kind: probe.TCP, Port: 5432}},
	}}}
}

func load(t *testing.T, name, text string) *Config {
	l := newLoader()
	l.readSource(name, []byte(text))
	loaded, diags := l.finish()
	require.Empty(t, diags)
	return loaded.Config
}

func TestServices(t *testing.T) {
	c := load(t, "a.hcl", services)
	assert.Empty(t, cmp.Diff(wantServices(), c.Services, anyPlace))
	assert.Equal(t, []Listener{{"tcp", "127.0.0.1:8510"}, {"unix", "/run/a.sock"}}, c.HDS.Listeners())
	assert.Equal(t, fs.FileMode(0o660), c.HDS.Mode())
	rules := c.Rules()
	assert.Empty(t, cmp.Diff(wantServices(), rules.Services, anyPlace))
	assert.Equal(t, probe.Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: probe.Auto, Mode: probe.Enforce}, rules.Defaults)
}

func TestJSONIsEquivalent(t *testing.T) {
	got := load(t, "a.json", `{
		"hds": {"listen": ["127.0.0.1:8510", "unix:///run/a.sock"], "node_ids": ["ingress-*"]},
		"consul": [{"token": "secret"}],
		"service": {"web-*": {"check": [
			{"ready": {
				"interval": "2s", "timeout": "250ms", "healthy_threshold": 3, "unhealthy_threshold": 4, "observer": "node", "mode": "enforce",
				"http": {"path": "/ready", "method": "HEAD", "host": "web", "address": "10.0.0.1", "port": 80,
					"expected_statuses": ["200-299", 304, "401"]}
			}},
			{"db": {"tcp": {"port": 5432}}}
		]}}
	}`)
	assert.Empty(t, cmp.Diff(load(t, "a.hcl", services), got, anyPlace))
}

// TestRedacted loads the dump again: it says all but the token.
func TestRedacted(t *testing.T) {
	want := load(t, "a.hcl", services)
	dump := want.Redacted()
	assert.NotContains(t, dump, "secret")
	got := load(t, "dump.hcl", dump)
	assert.Equal(t, hidden, got.Consul.Token)
	want.Consul.Token = hidden
	assert.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty(), anyPlace))
	assert.Contains(t, Default().Redacted(), "  token         = \"\"\n")
}

func TestWarnings(t *testing.T) {
	loaded, diags := Load(Options{
		Environ: []string{"CONSUL_HDS_PORT=1"},
		Flags: map[string]string{
			"checks.ttl": "20s", "hds.allow_plaintext": "true", "hds.listen": "0.0.0.0:8510, localhost:8512",
			"admin.metrics_listen": "0.0.0.0:9102", "checks.orphan_grace": "0s",
		},
	})
	require.False(t, diags.HasErrors(), "%v", diags)
	var got []string
	for _, d := range diags {
		assert.Equal(t, hcl.DiagWarning, d.Severity)
		got = append(got, d.Summary)
	}
	assert.Equal(t, []string{"Unknown variable", "Check checks.ttl", "Check hds.listen"}, got)
	assert.Equal(t, []string{"0.0.0.0:8510", "localhost:8512"}, loaded.Config.HDS.Listen)
	assert.Zero(t, loaded.Config.Checks.OrphanGrace)
}

// TestWarningsOfAccess warns of what lets strangers in, and of nothing else.
func TestWarningsOfAccess(t *testing.T) {
	const off, loop, socket = "0.0.0.0:8510", "127.0.0.1:8510", "unix:///run/x/hds.sock"
	with := map[string]string{"hds.tls.cert_file": "/c", "hds.tls.key_file": "/k"}
	for _, c := range []struct {
		listen, auth, clientCA string
		tls                    bool
		want                   string
	}{
		{loop, "none", "", false, ""},
		{loop, "consul", "", false, "tokens cross " + loop + " in plain text"},
		{loop, "consul", "", true, ""},
		{loop, "none", "", true, ""},
		{off, "none", "", true, off + " is off loopback, and hds.tls has no client_ca_file: whoever reaches it may claim to be any Envoy"},
		{off, "none", "/ca", true, ""},
		{off, "consul", "", true, ""},
		{socket, "consul", "", false, ""},
		{socket, "none", "", true, "hds.listen has no TCP address: hds.tls has no effect on unix sockets"},
	} {
		flags := map[string]string{"hds.listen": c.listen, "hds.auth": c.auth, "hds.tls.client_ca_file": c.clientCA}
		if c.tls {
			maps.Copy(flags, with)
		}
		_, diags := Load(Options{Flags: flags})
		require.False(t, diags.HasErrors(), "%v", diags)
		if c.want == "" {
			assert.Empty(t, diags, "%+v", c)
		} else if assert.Len(t, diags, 1, "%+v", c) {
			assert.Contains(t, diags[0].Detail, c.want)
		}
	}
}

func TestConsulAddress(t *testing.T) {
	for _, s := range []string{"127.0.0.1:8500", "consul:8500", "[::1]:8500", "http://consul", "https://consul:8501/prefix", "unix:///run/consul.sock"} {
		assert.NoError(t, checkConsulAddress(s), s)
	}
	for _, s := range []string{"consul", "http://", "https://u:p@consul", "tcp://consul:1", "consul:0", "unix://consul.sock", "http://c:99999", "a b:1"} {
		assert.Error(t, checkConsulAddress(s), s)
	}
}

func TestPlacesOfAttributes(t *testing.T) {
	l := newLoader()
	l.readSource("a.hcl", []byte("defaults {\n  interval = \"2s\"\n}\nservice \"web\" {\n  check \"ready\" {\n    timeout = \"1s\"\n    http {\n      path = \"/\"\n      tls {\n        ca_file = \"/ca\"\n      server_name = \"a\"\n}\n    }\n  }\n}\n"))
	loaded, diags := l.finish()
	require.Empty(t, diags)
	rules := loaded.Rules()
	assert.Equal(t, "a.hcl:2", rules.DefaultPlaces["interval"])
	assert.Equal(t, "default", rules.DefaultPlaces["timeout"])
	assert.Equal(t, probe.Places{
		"kind": "a.hcl:7", "timeout": "a.hcl:6", "http.path": "a.hcl:8", "http.tls": "a.hcl:9", "http.tls.ca_file": "a.hcl:10", "http.tls.server_name": "a.hcl:11",
	}, rules.Services[0].Checks[0].Places)
}
