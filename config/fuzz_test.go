package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
)

// theToken stands in for whatever token a source has set.
const theToken = "the-token-that-nobody-may-see"

// FuzzLoad reads any text as a file of each form. Every fault has its place, and
// what loads is shown without its token, and loads again to the same.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.hcl")
	for _, file := range append(files, "../examples/agent.hcl") {
		src, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(src)
	}
	f.Add([]byte(kindBlocks))
	f.Add([]byte(`{"consul": {"token": "x"}, "service": {"web": {"check": {"a": {"http": {"port": 80}}}}}}`))
	f.Add([]byte("consul {\n  token = \"" + theToken + "\"\n  poll_interval = 1\n}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, name := range []string{"x.hcl", "x.json"} {
			l := newLoader()
			l.readSource(name, src)
			loaded, diags := l.finish()
			require.NoError(t, loaded.WriteDiagnostics(&bytes.Buffer{}, diags))
			checkPlaces(t, name, src, diags)
			if !diags.HasErrors() {
				checkDump(t, loaded.Config)
				checkHidden(t, loaded.Config)
			}
		}
	})
}

// checkPlaces wants each fault to point at a line of the file, or to say of which
// file or attribute it is if it is of no line.
func checkPlaces(t *testing.T, name string, src []byte, diags hcl.Diagnostics) {
	t.Helper()
	lines := 1 + bytes.Count(src, []byte("\n"))
	for _, d := range diags {
		require.NotEmpty(t, d.Summary)
		if d.Subject == nil {
			named := strings.HasPrefix(d.Detail, name+": ") || PathOf(d) != ""
			require.True(t, named, "%s: %s", d.Summary, d.Detail)
			continue
		}
		require.Equal(t, name, d.Subject.Filename)
		require.True(t, d.Subject.Start.Line >= 1 && d.Subject.Start.Line <= lines, "%s of %d lines: %s", d.Subject, lines, d.Summary)
	}
}

// checkHidden wants a token in no view of the configuration.
func checkHidden(t *testing.T, c *Config) {
	t.Helper()
	secret := *c
	secret.Consul.Token = theToken
	require.NotContains(t, secret.Redacted(), theToken)
	require.NotContains(t, secret.Public(), theToken)
	for _, s := range c.Services {
		for _, check := range s.Checks {
			for _, text := range []string{string(check.Settings.Body), string(check.Settings.Send)} {
				if len(text) > 20 { // shorter ones may be there by chance
					require.NotContains(t, c.Public(), text)
				}
			}
		}
	}
}

// FuzzTexts sets an attribute by its flag and by its variables to any text, and
// another one of Consul's variables beside it. A fault names the source.
func FuzzTexts(f *testing.F) {
	for i, text := range []string{"1s", "true", "127.0.0.1:8500", "unix:///run/x.sock,[::1]:80", "0660", "a,b", "\xff", "", " x ", "https://u:p@h:1/", "9223372036854775807"} {
		for n := range Attributes() {
			if n%len(Attributes()) == i || i == 0 {
				f.Add(uint8(n), text, "CONSUL_HTTP_ADDR="+text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, text, variable string) {
		a := Attributes()[int(index)%len(Attributes())]
		options := Options{Environ: []string{variable}}
		switch {
		case a.Flag != "":
			options.Flags = map[string]string{a.Path: text}
		case a.Variable != "":
			options.Environ = append(options.Environ, a.Variable+"="+text)
		}
		loaded, diags := Load(options)
		for _, d := range diags {
			require.Nil(t, d.Subject, "there is no file")
			require.NotEmpty(t, d.Detail)
			require.True(t, PathOf(d) != "" || strings.Contains(d.Detail, "CONSUL_"), "%s: %s", d.Summary, d.Detail)
		}
		require.NoError(t, loaded.WriteDiagnostics(&bytes.Buffer{}, diags))
		if !diags.HasErrors() {
			checkDump(t, loaded.Config)
			checkHidden(t, loaded.Config)
		}
	})
}
