package main

import (
	"debug/buildinfo"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The release is built twice, in two places, and then looked into.
func TestTheRelease(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	src := candidate(t, repository)
	made, err := release(t.Context(), src, out)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"consul-hds_1.2.3-rc.1_linux_amd64.tar.gz", "consul-hds_1.2.3~rc.1_amd64.deb", "consul-hds-1.2.3~rc.1-1.x86_64.rpm",
		"consul-hds_1.2.3-rc.1_linux_arm64.tar.gz", "consul-hds_1.2.3~rc.1_arm64.deb", "consul-hds-1.2.3~rc.1-1.aarch64.rpm",
		"SHA256SUMS",
	}, made)

	t.Run("reproducible", func(t *testing.T) { testReproducible(t, out) })
	t.Run("checksums", func(t *testing.T) { testChecksums(t, out, made) })
	t.Run("archive", func(t *testing.T) { testArchive(t, src, out) })
	t.Run("deb", func(t *testing.T) { testDeb(t, src, out) })
	t.Run("rpm", func(t *testing.T) { testRPM(t, src, out) })
	t.Run("binary", func(t *testing.T) { testBinary(t, out) })
	t.Run("image", func(t *testing.T) { testImage(t, src, out) })
}

func testReproducible(t *testing.T, out string) {
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-mod=mod")
	again := filepath.Join(t.TempDir(), "dist")
	_, err := release(t.Context(), candidate(t, copyRepository(t)), again)
	require.NoError(t, err)
	assert.Equal(t, digests(t, out), digests(t, again))
}

func testChecksums(t *testing.T, out string, made []string) {
	text, err := os.ReadFile(filepath.Join(out, checksums))
	require.NoError(t, err)
	sums, listed := digests(t, out), []string{checksums}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		assert.Equal(t, sums[name], sum, name)
		listed = append(listed, name)
	}
	assert.ElementsMatch(t, made, listed)
}

func testArchive(t *testing.T, src source, out string) {
	for _, arch := range architectures() {
		folder := "consul-hds_1.2.3-rc.1_linux_" + arch
		file, err := os.Open(filepath.Join(out, folder+".tar.gz"))
		require.NoError(t, err)
		defer file.Close()
		items := readTar(t, file)
		require.True(t, items[folder].mode.IsDir())
		delete(items, folder)
		inside := map[string]item{}
		for name, it := range items {
			name, ok := strings.CutPrefix(name, folder+"/")
			require.True(t, ok, name)
			inside[name] = it
		}
		binary, err := os.ReadFile(filepath.Join(out, "linux", arch, "consul-hds"))
		require.NoError(t, err)
		assert.Equal(t, string(binary), inside["consul-hds"].body)
		assert.Equal(t, os.FileMode(0o755), inside["consul-hds"].mode)
		assert.Equal(t, os.FileMode(0o755), inside["examples/sidecar.sh"].mode)
		testOwners(t, src, inside)
		testDocuments(t, inside, "")
	}
}

// testOwners wants everything to be root's, and of the time of the commit.
func testOwners(t *testing.T, src source, items map[string]item) {
	t.Helper()
	for name, it := range items {
		assert.Equal(t, "root root", it.owner+" "+it.group, name)
		assert.Equal(t, src.time, it.time, name)
		assert.Zero(t, it.mode.Perm()&0o022, "%s: others may write to it", name)
	}
}

// testDocuments wants the documents below a folder, as they are in the repository.
func testDocuments(t *testing.T, items map[string]item, folder string) {
	t.Helper()
	for name, it := range items {
		if name, ok := strings.CutPrefix(name, folder); ok && filepath.Ext(name) != "" && it.body != "" {
			want, err := os.ReadFile(filepath.Join(repository, name))
			require.NoError(t, err)
			assert.Equal(t, string(want), it.body, name)
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "examples/agent.hcl", "examples/vm/web.hcl"} {
		assert.NotEmpty(t, items[folder+name].body, name)
	}
	for _, page := range []string{"README.md", "examples/README.md", "nomad/README.md"} {
		for _, link := range links(items[folder+page].body) {
			_, ok := items[filepath.Join(folder, filepath.Dir(page), link)]
			assert.True(t, ok, "%s links to %s, which is missing", page, link)
		}
	}
}

// links are the files that a page of Markdown links to.
func links(page string) []string {
	var found []string
	for _, part := range strings.Split(page, "](")[1:] {
		link, _, _ := strings.Cut(part, ")")
		link, _, _ = strings.Cut(link, "#")
		if link != "" && !strings.Contains(link, "://") {
			found = append(found, link)
		}
	}
	return found
}

func testBinary(t *testing.T, out string) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	require.ElementsMatch(t, architectures(), slices.Collect(maps.Keys(machines)))
	for arch, machine := range machines {
		path := filepath.Join(out, "linux", arch, "consul-hds")
		file, err := elf.Open(path)
		require.NoError(t, err)
		defer file.Close()
		assert.Equal(t, machine, file.Machine)
		for _, p := range file.Progs {
			assert.NotEqual(t, elf.PT_INTERP, p.Type, "it is not static")
		}
		info, err := buildinfo.ReadFile(path)
		require.NoError(t, err)
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		assert.Equal(t, "0", settings["CGO_ENABLED"])
		assert.Equal(t, "true", settings["-trimpath"])
	}
	daemon := filepath.Join(out, "linux", runtime.GOARCH, "consul-hds")
	assert.Equal(t, "consul-hds v1.2.3-rc.1 (0123456789ab) "+runtime.Version()+"\n",
		output(t, exec.CommandContext(t.Context(), daemon, "version")))
	testConfiguration(t, daemon)
}

// testConfiguration wants the configuration of the packages to be valid as it is,
// and with all that it suggests.
func testConfiguration(t *testing.T, daemon string) {
	shipped, err := os.ReadFile("package/consul-hds.hcl")
	require.NoError(t, err)
	_, suggested, _ := strings.Cut(string(shipped), "\n\n")
	active := strings.TrimPrefix(strings.ReplaceAll("\n"+suggested, "\n# ", "\n"), "\n")
	assert.Contains(t, active, "\n  token_file = ")
	for _, text := range []string{string(shipped), active} {
		file := filepath.Join(t.TempDir(), "consul-hds.hcl")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		output(t, exec.CommandContext(t.Context(), daemon, "validate", filepath.Dir(file)))
	}
}
