package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstall installs the working tree as a version of the module, from a proxy
// in a folder. The binary knows the version though no linker flag has told it.
func TestGoInstall(t *testing.T) {
	version := module.Version{Path: "github.com/consul-hds/consul-hds", Version: "v1.2.3"}
	served := serve(t, version, copyRepository(t))
	cached := strings.TrimSpace(output(t, exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE")))
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", "-modcacherw", version.Path+"/cmd/consul-hds@"+version.Version)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+served+",file://"+cached+"/cache/download", "GOSUMDB=off",
		"GOMODCACHE="+t.TempDir(), "GOBIN="+bin, "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOWORK=off")
	output(t, cmd)
	assert.Equal(t, "consul-hds v1.2.3 "+runtime.Version()+"\n",
		output(t, exec.CommandContext(t.Context(), filepath.Join(bin, "consul-hds"), "version")))
}

// serve lays a version out as a module proxy has it, and gives the folder.
func serve(t *testing.T, version module.Version, tree string) string {
	t.Helper()
	proxy := t.TempDir()
	folder := filepath.Join(proxy, version.Path, "@v")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "list"), []byte(version.Version+"\n"), 0o600))
	info, err := json.Marshal(map[string]any{"Version": version.Version, "Time": time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, version.Version+".info"), info, 0o600))
	gomod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, version.Version+".mod"), gomod, 0o600))
	file, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, zip.CreateFromDir(file, version, tree))
	return proxy
}
