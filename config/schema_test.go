package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// defaultValues are the defaults of the contract, written down a second time.
var defaultValues = map[string]any{
	"log_level": "info", "log_json": false, "data_dir": "/run/consul-hds",
	"consul.address": "127.0.0.1:8500", "consul.token": "", "consul.token_file": "",
	"consul.namespace": "", "consul.partition": "", "consul.node_name": "", "consul.node_address": "",
	"consul.poll_interval": time.Second,
	"consul.tls.ca_file":   "", "consul.tls.cert_file": "", "consul.tls.key_file": "",
	"consul.tls.server_name": "", "consul.tls.skip_verify": false,
	"hds.listen":      []string{"unix:///run/consul-hds/hds.sock"},
	"hds.socket_mode": "0660", "hds.socket_group": "", "hds.node_ids": []string(nil),
	"hds.report_interval": 500 * time.Millisecond, "hds.max_streams": 256,
	"hds.allow_plaintext": false, "hds.auth": "none",
	"hds.tls.cert_file": "", "hds.tls.key_file": "", "hds.tls.client_ca_file": "",
	"hds.tls.allowed_identities": []string(nil),
	"defaults.interval":          time.Second, "defaults.timeout": time.Second,
	"defaults.healthy_threshold": 1, "defaults.unhealthy_threshold": 2,
	"defaults.observer": "auto", "defaults.mode": "enforce", "defaults.ca_file": "",
	"checks.ttl": time.Minute, "checks.initial_status": "critical",
	"checks.stale_after": 10 * time.Second, "checks.on_stale": "expire",
	"checks.adopt_timeout": 20 * time.Second, "checks.orphan_grace": time.Minute,
	"checks.on_shutdown": "keep",
	"admin.listen":       "127.0.0.1:8511", "admin.metrics_listen": "", "admin.enable_debug": false,
	"telemetry.statsd_address": "", "telemetry.dogstatsd_addr": "", "telemetry.dogstatsd_tags": []string(nil),
}

func TestDefaults(t *testing.T) {
	loaded, diags := Load(Options{})
	require.Empty(t, diags)
	assert.Equal(t, Default(), loaded.Config)
	for _, a := range Attributes() {
		want, ok := defaultValues[a.Path]
		if assert.True(t, ok, "no default test of %s", a.Path) {
			assert.Equal(t, want, a.field(loaded.Config).Interface(), a.Path)
		}
		assert.Equal(t, "default", loaded.Sources[a.Path].String())
	}
	assert.Len(t, defaultValues, len(Attributes()))
}

func TestAttributesAreDescribed(t *testing.T) {
	assert.Len(t, specs, len(Attributes()), "specs of attributes that do not exist")
	names := map[string]string{}
	for _, a := range Attributes() {
		assert.NotEmpty(t, a.Usage, a.Path)
		assert.NotEmpty(t, a.Type, a.Path)
		for _, name := range []string{a.Flag, a.Variable} {
			if name != "" {
				assert.Empty(t, names[name], "%s names two attributes", name)
				names[name] = a.Path
			}
		}
	}
	assert.Equal(t, "hds.report_interval", names["hds-report-interval"])
	assert.Equal(t, "hds.report_interval", names["CONSUL_HDS_HDS_REPORT_INTERVAL"])
	assert.Equal(t, "log_level", names["log-level"])
	assert.Equal(t, tokenPath, names["CONSUL_HDS_CONSUL_TOKEN"])
	assert.NotContains(t, names, "consul-token")
}

// checkPaths are the paths of all that may stand in a check block.
func checkPaths() []string {
	var out []string
	add := func(prefix string, attributes []checkAttribute) {
		for _, a := range attributes {
			out = append(out, prefix+a.name)
		}
	}
	add("check.", checkAttributes())
	for _, kind := range kinds {
		path := "check." + kind
		out = append(out, path, path+".tls")
		add(path+".", kindAttributes(kind))
		add(path+".tls.", tlsAttributes())
	}
	return out
}

// tlsPath finds the kind in the path of what stands in its tls block.
var tlsPath = regexp.MustCompile(`^check\.(\w+)\.tls`)

// isBlock says whether a path is that of a kind or of its tls block.
func isBlock(path string) bool {
	return slices.Contains(kinds, strings.TrimSuffix(strings.TrimPrefix(path, "check."), ".tls"))
}

// docRows are the cells of the tables of docs/config.md, by path.
func docRows(t *testing.T) map[string][]string {
	src, err := os.ReadFile("../docs/config.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(src), -1) {
		cells := strings.Split(m[2], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		assert.NotContains(t, rows, m[1], "two rows")
		rows[m[1]] = cells
	}
	return rows
}

func TestReference(t *testing.T) {
	rows := docRows(t)
	for _, a := range Attributes() {
		row := rows[a.Path]
		if !assert.Len(t, row, 4, "docs/config.md has no row for %s", a.Path) {
			continue
		}
		assert.Equal(t, a.Type, row[0], a.Path)
		expr, diags := hclsyntax.ParseExpression([]byte(strings.Trim(row[1], "`")), "", hcl.InitialPos)
		require.False(t, diags.HasErrors(), a.Path)
		v, _ := expr.Value(nil)
		got, err := a.decode(v)
		require.NoError(t, err)
		if got == nil {
			got = ""
		}
		assert.Equal(t, a.format(a.field(Default()).Interface()), a.format(got), "default of %s in docs/config.md", a.Path)
		for _, word := range a.words {
			assert.Contains(t, row[2], "`"+word+"`", a.Path)
		}
	}
	for _, path := range checkPaths() {
		if isBlock(path) {
			continue // told in a sentence
		}
		row := rows[tlsPath.ReplaceAllString(path, "tls")] // one table for every kind
		assert.Len(t, row, 3, "docs/config.md has no row for %s", path)
	}
	src, err := os.ReadFile("../docs/config.md")
	require.NoError(t, err)
	for _, v := range consulVariables {
		assert.Contains(t, string(src), fmt.Sprintf("| `%s` | `%s` |", v.variable, v.path))
	}
}

// TestSample holds the sample to every attribute at its default.
func TestSample(t *testing.T) {
	const path = "../examples/agent.hcl"
	loaded, diags := Load(Options{Paths: []string{path}})
	require.Empty(t, diags)
	want := Default()
	assert.Empty(t, loaded.Config.HDS.NodeIDs)
	loaded.Config.HDS.NodeIDs, loaded.Config.HDS.TLS.AllowedIdentities, loaded.Config.Telemetry.DogstatsdTags = nil, nil, nil
	assert.Equal(t, want, loaded.Config)

	src, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(hclwrite.Format(src)), string(src), "format it with hclfmt")
	file, _ := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	found := map[string]bool{}
	gather(file.Body.(*hclsyntax.Body), "", found)
	for _, a := range Attributes() {
		assert.True(t, found[a.Path], "the sample lacks %s", a.Path)
	}
}

func gather(b *hclsyntax.Body, prefix string, found map[string]bool) {
	for name := range b.Attributes {
		found[prefix+name] = true
	}
	for _, block := range b.Blocks {
		gather(block.Body, prefix+block.Type+".", found)
	}
}

// TestFieldsAreTagged finds fields that no source could set.
func TestFieldsAreTagged(t *testing.T) {
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, block := tagOf(f)
			if f.Name != "Services" {
				assert.NotEmpty(t, name, "%s.%s", typ, f.Name)
			}
			if block {
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[Config]())
}

// TestMetaReference compares the defaults that docs/meta.md takes from the config.
func TestMetaReference(t *testing.T) {
	src, err := os.ReadFile("../docs/meta.md")
	require.NoError(t, err)
	found := 0
	for _, m := range regexp.MustCompile("(?m)^\\| `hds_(\\w+)` .*\\| `(\\w+)` \\(config\\) \\|$").FindAllStringSubmatch(string(src), -1) {
		path := "defaults." + m[1]
		i := slices.IndexFunc(Attributes(), func(a Attribute) bool { return a.Path == path })
		require.GreaterOrEqual(t, i, 0, path)
		assert.Equal(t, Attributes()[i].Default, m[2], "default of hds_%s in docs/meta.md", m[1])
		found++
	}
	assert.Equal(t, 6, found, "the attributes of defaults that meta may set")
}

// TestReferenceExamples loads the configurations that the documentation shows.
func TestReferenceExamples(t *testing.T) {
	for _, page := range []string{"README.md", "docs/config.md", "docs/failures.md", "docs/security.md"} {
		src, err := os.ReadFile("../" + page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllSubmatch(src, -1)
		require.NotEmpty(t, blocks, page)
		for _, b := range blocks {
			load(t, filepath.Base(page)+".hcl", string(b[1]))
		}
	}
}
