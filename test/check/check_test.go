package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportFaults(t *testing.T) {
	const m = module + "/"
	for name, c := range map[string]struct {
		pkg  pkg
		want string // part of the only fault; empty for none
	}{
		"allowed":             {pkg{ImportPath: m + "bridge/hds", Imports: []string{"fmt", "google.golang.org/grpc", m + "bridge/probe"}}, ""},
		"sideways":            {pkg{ImportPath: m + "bridge/hds", Imports: []string{m + "bridge/checks"}}, "the rules do not allow it"},
		"bridge and config":   {pkg{ImportPath: m + "bridge", Imports: []string{m + "config"}}, "the rules do not allow it"},
		"a command":           {pkg{ImportPath: m + "cmd/consul-hds", Imports: []string{m + "bridge", m + "config"}}, ""},
		"deep from a command": {pkg{ImportPath: m + "cmd/consul-hds", Imports: []string{m + "bridge/hds"}}, "the rules do not allow it"},
		"own helper":          {pkg{ImportPath: m + "bridge/catalog/catalogtest", Imports: []string{m + "bridge/catalog"}}, ""},
		"helper in code":      {pkg{ImportPath: m + "bridge/probe", Imports: []string{m + "bridge/catalog/catalogtest"}}, "it is for tests"},
		"helper in a test":    {pkg{ImportPath: m + "bridge/probe", TestImports: []string{m + "bridge/catalog/catalogtest"}}, ""},
		"lab in code":         {pkg{ImportPath: m + "bridge/hds", Imports: []string{m + "test/lab"}}, "the rules do not allow it"},
		"lab in a test":       {pkg{ImportPath: m + "bridge/hds", XTestImports: []string{m + "test/lab"}}, ""},
		"sideways in a test":  {pkg{ImportPath: m + "bridge/hds", TestImports: []string{m + "bridge/admin"}}, "a test of bridge/hds"},
		"pure":                {pkg{ImportPath: m + "bridge/health", Imports: []string{"math/rand/v2"}, TestImports: []string{"pgregory.net/rapid"}}, ""},
		"pure with library":   {pkg{ImportPath: m + "bridge/health", Imports: []string{"golang.org/x/sync/errgroup"}}, "only the standard library"},
		"no rule":             {pkg{ImportPath: m + "elsewhere"}, "no rule"},
		"tests import all":    {pkg{ImportPath: m + "test/e2e", Imports: []string{m + "bridge/hds", m + "test/lab"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			faults := importFaults(c.pkg)
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.want)
		})
	}
}

func TestModuleFaults(t *testing.T) {
	faults, err := moduleFaults([]byte("module m\n\nrequire (\n\tgithub.com/hashicorp/consul/api v1.0.0\n)\n"))
	require.NoError(t, err)
	require.Empty(t, faults)
	faults, err = moduleFaults([]byte("module m\n\nrequire github.com/hashicorp/consul v1.13.9\n\nreplace a => ../a\n"))
	require.NoError(t, err)
	require.Len(t, faults, 2)
}

func TestWhichHCLMustBeFormatted(t *testing.T) {
	for path, want := range map[string]bool{
		"nomad/job.hcl": true, "examples/consul-hds.hcl": true, "nomad/a/b.nomad": true, "release/package/a.hcl": true,
		"config/testdata/bad/x.hcl": true, "docs/a.hcl": false, "examples/a.json": false,
	} {
		require.Equal(t, want, isFormattedHCL(path), path)
	}
}
