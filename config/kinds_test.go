package config

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const kindBlocks = `
defaults {
  ca_file = "/etc/ca.pem"
}
service "web" {
  check "http" {
    ca_file = "/etc/check.pem"
    http {
      address = "app.example"
      method  = "post"
      header = {
        "X-Probe" = ["hds", "100 % $${x}"]
        for       = ["\t\"\\"]
        accept    = [""]
      }
      http2   = true
      body    = "%%{if}é ${"$"}{x}"
      receive = ["ok", "hex:00FF", "\n", "hex:6f6b"]
      tls {
        server_name = "app.example"
        cert_file   = "/etc/web.pem"
        key_file    = "/etc/web.key"
      }
    }
  }
  check "tcp" {
    tcp {
      send    = "PING\r\n"
      receive = ["hex:6865783a", "hex:65cc81"]
      tls {
        server_name = "::1"
        ca_file     = "/etc/tcp.pem"
        skip_verify = false
      }
    }
  }
  check "grpc" {
    grpc {
      service = "pkg.Greeter"
      address = "::1"
      port    = 50051
      tls {
        skip_verify = true
      }
    }
  }
  check "banner" {
    ca_file = "/etc/banner.pem"
    tcp {
      receive = ["220 "]
    }
  }
  check "defaults" {
    grpc {
      service = ""
      tls {
        server_name = "app"
        ca_file     = ""
        cert_file   = null
      }
    }
  }
  check "none" {
    http {
      header = {}
      http2  = false
      body   = ""
    }
  }
}
`

func wantKinds() []probe.Check {
	return []probe.Check{
		{Name: "http", Settings: probe.Settings{
			Kind: probe.HTTP, Address: "app.example", Method: "POST", HTTP2: true,
			Headers: map[string][]string{"X-Probe": {"hds", "100 % ${x}"}, "for": {"\t\"\\"}, "accept": {""}},
			Body:    "%{if}é ${x}", Receive: []probe.Payload{"ok", "\x00\xff", "\n", "ok"},
			TLS: probe.On, TLSServerName: "app.example", TLSCAFile: "/etc/check.pem",
			TLSCertFile: "/etc/web.pem", TLSKeyFile: "/etc/web.key",
		}},
		{Name: "tcp", Settings: probe.Settings{
			Kind: probe.TCP, Send: "PING\r\n", Receive: []probe.Payload{"hex:", "e\u0301"},
			TLS: probe.On, TLSServerName: "::1", TLSCAFile: "/etc/tcp.pem", TLSSkipVerify: probe.Not,
		}},
		{Name: "grpc", Settings: probe.Settings{
			Kind: probe.GRPC, GRPCService: "pkg.Greeter", Address: "::1", Port: 50051,
			TLS: probe.On, TLSSkipVerify: probe.On,
		}},
		{Name: "banner", Settings: probe.Settings{Kind: probe.TCP, TLSCAFile: "/etc/banner.pem", Receive: []probe.Payload{"220 "}}},
		{Name: "defaults", Settings: probe.Settings{Kind: probe.GRPC, TLS: probe.On, TLSServerName: "app"}},
		{Name: "none", Settings: probe.Settings{Kind: probe.HTTP}},
	}
}

func TestKinds(t *testing.T) {
	c := load(t, "a.hcl", kindBlocks)
	assert.Empty(t, cmp.Diff(wantKinds(), c.Services[0].Checks, anyPlace))
	assert.Equal(t, "/etc/ca.pem", c.Rules().Defaults.TLSCAFile)
	checkDump(t, c)
	dump := c.Redacted()
	assert.Contains(t, dump, `hex:50494e470d0a`)
	assert.Contains(t, dump, `receive = ["hex:6865783a", "hex:65cc81"]`)
}

func TestKindsInJSON(t *testing.T) {
	got := load(t, "a.json", `{"defaults": {"ca_file": "/etc/ca.pem"}, "service": {"web": {"check": {
		"http": {"ca_file": "/etc/check.pem", "http": {
			"address": "app.example", "method": "POST", "http2": true, "body": "%{if}é ${x}",
			"header": {"X-Probe": ["hds", "100 % ${x}"], "for": ["\t\"\\"], "accept": [""]},
			"receive": ["ok", "hex:00FF", "\n", "ok"],
			"tls": {"server_name": "app.example", "cert_file": "/etc/web.pem", "key_file": "/etc/web.key"}
		}},
		"grpc": {"grpc": {"service": "pkg.Greeter", "address": "::1", "port": 50051, "tls": {"skip_verify": true}}}
	}}}}`)
	want := wantKinds()
	assert.Empty(t, cmp.Diff([]probe.Check{want[0], want[2]}, got.Services[0].Checks, anyPlace))
	for _, text := range []string{
		`"http": {"header": {"X": ["a"], "X": ["b"]}}`,
		`"http": {"header": {"X": "a"}}`,
		`"http": {"header": {"X": null}}`,
		`"tcp": {"tls": [{"skip_verify": true}, {}]}`,
	} {
		assert.Len(t, read("a.json", `{"service": {"web": {"check": {"a": {`+text+`}}}}}`), 1, text)
	}
}

// TestEverySettingHasAnAttribute finds settings of probes that no file can set.
func TestEverySettingHasAnAttribute(t *testing.T) {
	set := map[string]bool{}
	for _, text := range []string{services, kindBlocks} {
		for _, c := range load(t, "a.hcl", text).Services[0].Checks {
			v := reflect.ValueOf(c.Settings)
			for i := range v.NumField() {
				set[v.Type().Field(i).Name] = set[v.Type().Field(i).Name] || !v.Field(i).IsZero()
			}
		}
	}
	for name, ok := range set {
		assert.True(t, ok, "no check sets %s", name)
	}
}

// TestAllFaultsOfACheck expects one fault for each rule that is not kept.
func TestAllFaultsOfACheck(t *testing.T) {
	diags := read("a.hcl", `
defaults {
  unhealthy_threshold = 1000
}
service "web" {
  check "a" {
    http {
      body    = "ping"
      receive = ["pong"]
      tls {}
    }
  }
}`)
	var got []string
	for _, d := range diags {
		got = append(got, d.Detail)
	}
	require.Len(t, got, 3)
	assert.Contains(t, got[0], "at most 10m")
	assert.Contains(t, got[1], "a body cannot be sent with method GET")
	assert.Contains(t, got[2], "TLS without a CA")
}

// TestCAOfAnyLayer judges a check by the defaults that all layers make.
func TestCAOfAnyLayer(t *testing.T) {
	path := writeFile(t, t.TempDir(), "a.hcl", "service \"web\" {\n  check \"a\" {\n    tcp {\n      tls {\n        server_name = \"a\"\n      }\n    }\n  }\n}\n")
	_, diags := Load(Options{Paths: []string{path}})
	assert.Len(t, diags, 1)
	loaded, diags := Load(Options{Paths: []string{path}, Flags: map[string]string{caPath: "/etc/ca.pem"}})
	require.Empty(t, diags)
	assert.Equal(t, "/etc/ca.pem", loaded.Config.Rules().Defaults.TLSCAFile)
	assert.Empty(t, loaded.Config.Services[0].Checks[0].Settings.TLSCAFile)
}

// checkDump loads the dump of a valid configuration: it says all but the token.
func checkDump(t interface{ Fatalf(string, ...any) }, want *Config) {
	dump := want.Redacted()
	loaded, diags := readAll("dump.hcl", dump)
	if diags.HasErrors() {
		t.Fatalf("the dump of a valid configuration is invalid: %v\n%s", diags, dump)
	}
	got := loaded.Config
	if want.Consul.Token != "" {
		got.Consul.Token = want.Consul.Token
	}
	// A variable or a flag may hold a text that no file can, as HCL reads it.
	sameToHCL := cmp.Comparer(func(a, b string) bool { return cty.NormalizeString(a) == cty.NormalizeString(b) })
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), anyPlace, sameToHCL); diff != "" {
		t.Fatalf("the dump says something else: %s\n%s", diff, dump)
	}
}

// TestDumpsOfAnyText dumps payloads of any bytes and headers of any text.
func TestDumpsOfAnyText(t *testing.T) {
	piece := rapid.SampledFrom([]string{"$", "%", "{", "}", "\"", "\\", "\n", "\t", " ", "hex:", "a", "é", "e\u0301", "\u2028", "\ufeff", "\x00", "\xff", "~}", "${", "%{if"})
	text := rapid.Custom(func(t *rapid.T) string {
		s := ""
		for _, p := range rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces") {
			s += p
		}
		return s
	})
	name := rapid.OneOf(rapid.SampledFrom([]string{"for", "null", "true", "if", "1", "$", "%", "a.b", "`"}), rapid.StringMatching("[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,9}"))
	value := rapid.StringMatching("[ -~\t]{0,9}")
	rapid.Check(t, func(t *rapid.T) {
		s := probe.Settings{Kind: probe.HTTP, Method: "POST", Body: probe.Payload(text.Draw(t, "body"))}
		for _, r := range rapid.SliceOfN(text, 0, 3).Draw(t, "receive") {
			s.Receive = append(s.Receive, probe.Payload(r))
		}
		s.Headers = rapid.MapOfN(name, rapid.SliceOfN(value, 1, 3), 0, 5).Draw(t, "headers")
		if probe.CheckHeaders(s.Headers) != nil {
			t.Skip("names that differ in case only, or Envoy's own")
		}
		c := Default()
		c.Services = []probe.Service{{Name: "web", Checks: []probe.Check{{Name: "a", Settings: s}}}}
		checkDump(t, c)
	})
}
