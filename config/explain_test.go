package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// explained loads a file and gives its values by path, each with its source.
func explained(t *testing.T, o Options, hcl string) map[string][2]string {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.hcl", []byte(hcl), 0o600))
	o.Paths = []string{"a.hcl"}
	loaded, diags := Load(o)
	require.Empty(t, diags)
	out := map[string][2]string{}
	for _, v := range loaded.Values() {
		assert.NotContains(t, out, v.Path, "each is there once")
		out[v.Path] = [2]string{v.Value, v.Source}
	}
	return out
}

func TestEachValueHasItsSource(t *testing.T) {
	got := explained(t, Options{
		Environ: []string{"CONSUL_HDS_HDS_NODE_IDS=a,b", "CONSUL_HTTP_TOKEN=hush", "CONSUL_HTTP_SSL=true"},
		Flags:   map[string]string{"log_level": "debug"},
	}, "checks {\n  ttl = \"90s\"\n}\n")
	for path, want := range map[string][2]string{
		"log_level": {"debug", "the flag -log-level"}, "hds.node_ids": {"a,b", "the variable CONSUL_HDS_HDS_NODE_IDS"},
		"checks.ttl": {"1m30s", "a.hcl:2"}, "defaults.interval": {"1s", "default"},
		"consul.token":   {"(hidden)", "the variable CONSUL_HTTP_TOKEN"},
		"consul.address": {"https://127.0.0.1:8500", "default, https:// by the variable CONSUL_HTTP_SSL"},
	} {
		assert.Equal(t, want, got[path], path)
	}
}

// everyCheck sets TLS in each kind, and a check without.
const everyCheck = `
defaults {
  timeout = "700ms"
  ca_file = "/etc/ca.pem"
}
service "web-*" {
  check "http" {
    interval = "2s"
    http {
      path   = "/ready"
      header = { "X-Key" = ["hush"] }
      method = "post"
      body   = "hush"
      tls {
        server_name = "app"
      }
    }
  }
  check "tcp" {
    tcp {
      send    = "hush"
      receive = ["hush"]
      tls {
        server_name = "app"
      }
    }
  }
  check "grpc" {
    grpc {
      tls {
        server_name = "app"
      }
    }
  }
  check "plain" {
    tcp {}
  }
}
`

func TestAllValuesAreThere(t *testing.T) {
	got := explained(t, Options{}, everyCheck)
	want := []string{}
	for _, a := range Attributes() {
		want = append(want, a.Path)
	}
	const service = "service.web-*.check."
	for _, kind := range kinds {
		prefix := service + kind + "."
		for _, path := range checkPaths() {
			path = strings.TrimPrefix(path, "check.")
			owner, rest, nested := strings.Cut(path, ".")
			switch {
			case path == "ca_file": // in force as that of tls
			case !nested && isBlock("check."+path):
			case !nested:
				want = append(want, prefix+path)
			case owner == kind && rest != "":
				want = append(want, prefix+path)
			}
		}
		want = append(want, prefix+"kind")
	}
	for _, name := range []string{"kind", "interval", "timeout", "healthy_threshold", "unhealthy_threshold", "observer", "mode", "ca_file",
		"tcp.address", "tcp.port", "tcp.send", "tcp.receive", "tcp.tls"} {
		want = append(want, service+"plain."+name)
	}
	for _, path := range want {
		assert.Contains(t, got, path)
	}
	assert.Len(t, got, len(want))
	for path, v := range got {
		assert.NotContains(t, v[0], "hush", path)
		assert.NotEmpty(t, v[1], path)
	}
}

func TestAChecksValuesFallBackToTheDefaults(t *testing.T) {
	got := explained(t, Options{}, everyCheck)
	for path, want := range map[string][2]string{
		"http.kind": {"http", "a.hcl:9"}, "http.interval": {"2s", "a.hcl:8"}, "http.timeout": {"700ms", "defaults.timeout, a.hcl:3"},
		"http.healthy_threshold": {"1", "defaults.healthy_threshold, default"},
		"http.http.path":         {"/ready", "a.hcl:10"}, "http.http.method": {"POST", "a.hcl:12"},
		"http.http.header": {"X-Key (values hidden)", "a.hcl:11"}, "http.http.body": {"4 bytes (hidden)", "a.hcl:13"},
		"http.http.expected_statuses": {"200-299", "default"}, "http.http.http2": {"false", "default"}, "http.http.port": {"", "default"},
		"http.http.tls": {"true", "a.hcl:14"}, "http.http.tls.ca_file": {"/etc/ca.pem", "defaults.ca_file, a.hcl:4"},
		"grpc.grpc.tls.server_name": {"app", "a.hcl:31"}, "grpc.grpc.tls.skip_verify": {"false", "default"},
		"tcp.tcp.receive": {"1 payload (hidden)", "a.hcl:22"},
		"plain.tcp.tls":   {"false", "default"}, "plain.ca_file": {"/etc/ca.pem", "defaults.ca_file, a.hcl:4"},
	} {
		assert.Equal(t, want, got["service.web-*.check."+path], path)
	}
}

func TestPathOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	require.NoError(t, os.WriteFile(file, []byte("log_level = \"loud\"\nservice \"a\" {\n  check \"b\" {\n    http {\n      path = 1\n    }\n  }\n}\n"), 0o600))
	loaded, diags := Load(Options{Paths: []string{file}, Environ: []string{"CONSUL_HDS_NONE=1"}})
	var got []string
	for _, d := range diags {
		got = append(got, PathOf(d))
	}
	assert.Equal(t, []string{"", "log_level", "check.http.path"}, got)
	d := loaded.Fault("hds.tls.cert_file", probe.CheckPort(0))
	assert.Equal(t, "Invalid hds.tls.cert_file", d.Summary)
}
