package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const docs = "usr/share/doc/consul-hds/"

// installed is what a package installs beside the documents: the file of the
// repository that each is a copy of.
func installed(out, arch string) map[string]string {
	return map[string]string{
		"usr/bin/consul-hds":                        filepath.Join(out, "linux", arch, "consul-hds"),
		"etc/consul-hds.d/consul-hds.hcl":           filepath.Join(repository, "release/package/consul-hds.hcl"),
		"usr/lib/systemd/system/consul-hds.service": filepath.Join(repository, "examples/consul-hds.service"),
		"usr/lib/sysusers.d/consul-hds.conf":        filepath.Join(repository, "release/package/sysusers.conf"),
	}
}

// testPackage looks at what a deb and an rpm have in common.
func testPackage(t *testing.T, src source, out, arch string, items map[string]item) {
	t.Helper()
	testOwners(t, src, items)
	testDocuments(t, items, docs)
	want := installed(out, arch)
	for name, it := range items {
		if it.body == "" || strings.HasPrefix(name, docs) {
			continue
		}
		require.Contains(t, want, name)
		body, err := os.ReadFile(want[name])
		require.NoError(t, err)
		assert.Equal(t, string(body), it.body, name)
		delete(want, name)
	}
	assert.Empty(t, want, "not installed")
	assert.Equal(t, os.FileMode(0o755), items["usr/bin/consul-hds"].mode.Perm())
	assert.Equal(t, os.FileMode(0o644), items["etc/consul-hds.d/consul-hds.hcl"].mode.Perm())
	assert.Equal(t, os.FileMode(0o755), items["etc/consul-hds.d"].mode.Perm())
	testUnit(t, items)
}

// testUnit wants the unit, the user and the configuration to be of one another.
func testUnit(t *testing.T, items map[string]item) {
	t.Helper()
	unit := items["usr/lib/systemd/system/consul-hds.service"].body
	assert.Contains(t, unit, "\nExecStart=/usr/bin/consul-hds agent -config-dir /etc/consul-hds.d\n")
	assert.Contains(t, unit, "\nUser=consul-hds\nGroup=consul-hds\n")
	assert.Contains(t, unit, "\nRuntimeDirectory=consul-hds\n")
	assert.Contains(t, items["usr/lib/sysusers.d/consul-hds.conf"].body, "\nu consul-hds - ")
}

func testDeb(t *testing.T, src source, out string) {
	for _, arch := range architectures() {
		items, control := readDeb(t, filepath.Join(out, "consul-hds_1.2.3~rc.1_"+arch+".deb"))
		testPackage(t, src, out, arch, items)
		assert.Equal(t, []string{"conffiles", "control", "md5sums", "postinst", "postrm", "prerm"}, slices.Sorted(maps.Keys(control)))
		assert.Equal(t, "/etc/consul-hds.d/consul-hds.hcl\n", control["conffiles"].body)
		for _, line := range []string{
			"Package: consul-hds", "Version: 1.2.3~rc.1", "Architecture: " + arch,
			"Depends: systemd | systemd-standalone-sysusers | systemd-sysusers",
			"Description: Envoy health checks as Consul checks",
		} {
			assert.Contains(t, "\n"+control["control"].body, "\n"+line+"\n")
		}
		for script, file := range map[string]string{"postinst": "postinstall.sh", "prerm": "preremove.sh", "postrm": "postremove.sh"} {
			want, err := os.ReadFile(filepath.Join("package", file))
			require.NoError(t, err)
			assert.Equal(t, string(want), control[script].body, script)
			assert.Equal(t, os.FileMode(0o755), control[script].mode, script)
		}
	}
}

func testRPM(t *testing.T, src source, out string) {
	for arch, rpmArch := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		items, header := readRPM(t, filepath.Join(out, "consul-hds-1.2.3~rc.1-1."+rpmArch+".rpm"))
		testPackage(t, src, out, arch, items)
		for name, it := range items {
			want := 0
			switch {
			case name == docs+"LICENSE":
				want = rpmutils.RPMFILE_LICENSE
			case strings.HasPrefix(name, docs) && it.body != "":
				want = rpmutils.RPMFILE_DOC
			case name == "etc/consul-hds.d/consul-hds.hcl":
				want = rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
			}
			assert.Equal(t, want, it.flags, name)
		}
		for tag, want := range map[int]string{
			rpmutils.NAME: "consul-hds", rpmutils.VERSION: "1.2.3~rc.1", rpmutils.RELEASE: "1", rpmutils.ARCH: rpmArch,
			rpmutils.LICENSE: "MPL-2.0", rpmutils.BUILDHOST: "localhost",
			rpmutils.POSTIN: script(t, "postinstall.sh"), rpmutils.PREUN: script(t, "preremove.sh"),
			rpmutils.POSTUN: script(t, "postremove.sh"), rpmutils.POSTINPROG: "/bin/sh",
		} {
			got, err := header.GetStrings(tag)
			require.NoError(t, err)
			assert.Equal(t, []string{want}, got, tag)
		}
		needs, err := header.GetStrings(rpmutils.REQUIRENAME)
		require.NoError(t, err)
		assert.Contains(t, needs, "systemd")
	}
}

func script(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("package", name))
	require.NoError(t, err)
	return string(body)
}
