package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"syscall"
)

// TestBadFiles reads the files of testdata/bad, each with one fault: the first
// line says what must be told of it, a comment "# here" is in its line.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.hcl")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".hcl"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := bytes.Cut(src, []byte("\n"))
			want := strings.TrimPrefix(string(first), "# error: ")
			line := 1 + bytes.Count(src[:bytes.Index(src, []byte("# here"))], []byte("\n"))

			loaded, diags := Load(Options{Paths: []string{file}})
			if !assert.Len(t, diags, 1, "%v", diags) {
				return
			}
			d := diags[0]
			assert.Equal(t, hcl.DiagError, d.Severity)
			assert.Contains(t, d.Summary+": "+d.Detail, want)
			require.NotNil(t, d.Subject)
			assert.Equal(t, file, d.Subject.Filename)
			assert.Equal(t, line, d.Subject.Start.Line)
			var out bytes.Buffer
			require.NoError(t, loaded.WriteDiagnostics(&out, diags))
			assert.NotContains(t, out.String(), "secret")
		})
	}
}

func TestEachAttributeHasABadFile(t *testing.T) {
	paths := checkPaths()
	for _, a := range Attributes() {
		paths = append(paths, a.Path)
	}
	for _, path := range paths {
		assert.FileExists(t, filepath.Join("testdata/bad", path+".hcl"))
	}
}

// TestAllFaultsAtOnce gives faults of all sources, and expects them in order.
func TestAllFaultsAtOnce(t *testing.T) {
	dir := t.TempDir()
	a := writeFile(t, dir, "a.hcl", "log_level = \"loud\"\nhds {\n  max_streams = 0\n  nodes       = []\n}\n")
	b := writeFile(t, dir, "b.json", `{"checks": {"ttl": 5}, "service": {"web": {}}}`)
	loaded, diags := Load(Options{
		Paths:   []string{dir, filepath.Join(dir, "none.hcl"), filepath.Join(dir, "c.txt")},
		Environ: []string{"CONSUL_HDS_LOG_JSON=maybe", "CONSUL_HTTP_SSL=perhaps"},
		Flags:   map[string]string{"admin.listen": "10.0.0.1:1", tokenPath: "secret"},
	})
	var out bytes.Buffer
	require.NoError(t, loaded.WriteDiagnostics(&out, diags))
	assert.NotContains(t, out.String(), "secret")
	var got []string
	for _, d := range diags {
		at := ""
		if d.Subject != nil {
			at = strings.TrimPrefix(d.Subject.String(), dir+"/") + " "
		}
		got = append(got, at+d.Summary)
	}
	assert.Equal(t, []string{
		"Invalid consul.address", "Invalid log_json", "Invalid admin.listen", "Unknown flag",
		"Cannot read configuration", "Cannot read configuration",
		"a.hcl:1,13-19 Invalid log_level", "a.hcl:3,17-18 Invalid hds.max_streams", "a.hcl:4,3-8 Unsupported argument",
		"b.json:1,20-21 Invalid checks.ttl", "b.json:1,36-41 Invalid service",
	}, got)
	assert.Contains(t, out.String(), "  on "+a+" line 3, in hds:\n   3:   max_streams = 0\n\n0 is not allowed: from 1 to 100000.")
	assert.Contains(t, out.String(), b+" line 1")
	assert.Contains(t, out.String(), "the variable CONSUL_HTTP_SSL")
	assert.Contains(t, out.String(), "the variable CONSUL_HDS_LOG_JSON")
	assert.Contains(t, out.String(), "the flag -admin-listen")
}

func writeFile(t *testing.T, dir, name, text string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTokensAreMasked(t *testing.T) {
	for name, text := range map[string]string{
		"open.hcl":    "consul {\n  token = \"hush\n}\n",
		"call.hcl":    "consul {\n  token = upper(\"hush\")\n}\n",
		"lines.hcl":   "consul {\n  token = [\n\"hush\"]\n}\n",
		"heredoc.hcl": "consul {\n  token = <<-X\n    hush\n",
		"line.json":   `{"consul": {"token": "hush", "poll_interval": 1}}`,
		"open.json":   `{"consul": {"token": "hush", "poll_interval": }}`,
		"escape.json": `{"consul": {"tok\u0065n": "hush", "poll_interval": 1}}`,
	} {
		loaded, diags := Load(Options{Paths: []string{writeFile(t, t.TempDir(), name, text)}})
		assert.True(t, diags.HasErrors(), name)
		var out bytes.Buffer
		require.NoError(t, loaded.WriteDiagnostics(&out, diags))
		assert.NotContains(t, out.String(), "hush", name)
	}
}

// TestNesting gives the parsers what would overflow their stack.
func TestNesting(t *testing.T) {
	const many = 20_000
	for _, s := range []string{"(", "[", "{a=", "f(", `"${`, "1?1:", "!", "-", "1+"} {
		diags := read("x.hcl", "data_dir = "+strings.Repeat(s, many))
		require.Len(t, diags, 1, s)
		assert.Contains(t, diags[0].Detail, "nests brackets too deeply")
	}
	for _, s := range []string{"[", `{"a":`} {
		require.Len(t, read("x.json", strings.Repeat(s, many)), 1)
	}
	path := writeFile(t, t.TempDir(), "big.hcl", strings.Repeat("#\n", maxFile))
	_, diags := Load(Options{Paths: []string{path}})
	require.Len(t, diags, 1)
	assert.Contains(t, diags[0].Detail, "larger than 1 MiB")
}

// read loads the text of one file.
func read(name, text string) hcl.Diagnostics {
	_, diags := readAll(name, text)
	return diags
}

func readAll(name, text string) (*Loaded, hcl.Diagnostics) {
	l := newLoader()
	l.readSource(name, []byte(text))
	return l.finish()
}

// A key that was meant to be the token is refused, and its value not shown.
func TestMisspeltTokensAreMasked(t *testing.T) {
	for _, line := range []string{`tokn = "hush-1"`, `acl_token = "hush-1"`, `Token = "hush-1"`, `secret = "hush-1"`, `http_token: "hush-1"`, `password = "hush-1"`, `address = "http://u:hush-1@127.0.0.1:8500"`, `header = { "Authorization" = ["Bearer hush-1"] }`} {
		path := filepath.Join(t.TempDir(), "c.hcl")
		require.NoError(t, os.WriteFile(path, []byte("consul {\n  "+line+"\n}\n"), 0o600))
		loaded, diags := Load(Options{Paths: []string{path}})
		require.True(t, diags.HasErrors(), line)
		var out bytes.Buffer
		require.NoError(t, loaded.WriteDiagnostics(&out, diags))
		assert.NotContains(t, out.String(), "hush-1", line)
		assert.Contains(t, out.String(), path+":2:", line)
	}
}

func TestAFIFOIsNoConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.hcl")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, diags := Load(Options{Paths: []string{path}})
	require.Len(t, diags, 1)
	assert.Contains(t, diags[0].Detail, "no regular file")
}
