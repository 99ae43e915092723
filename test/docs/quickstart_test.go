package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// block finds the blocks of a page, with their language.
var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// blocks are those of a page in a language; those without one are what a reader
// pastes into a shell.
func blocks(page, language string) (out []string) {
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

// becomes is, for each block of the quick start, what a reader would wait to see
// before he goes on to the next one.
var becomes = []string{
	`curl -sf http://127.0.0.1:8500/v1/status/leader | grep -q 8300`,
	`curl -sf http://127.0.0.1:8511/v1/ready`,
	`consul-hds status | grep -q "^node-envoy .* true "`,
	`consul-hds status -status passing | grep -q hds:web-1`,
	`true`,
	`consul-hds status -status critical | grep -q hds:web-1; test "$(curl -sf 'http://127.0.0.1:8500/v1/health/service/web?passing')" = "[]"`,
	`true`,
	`test -z "$(jobs -rp)"`,
}

// prologue makes what the blocks find on a machine of their own: a network with a
// loopback interface, and an empty /run. Its python is "ip link set lo up".
const prologue = `set -eu
python3 -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))'
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
sudo() { "$@"; }
becomes() {
  for _ in $(seq 150); do
    if eval "$1" > /dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "it never became so: $1"
  tail -n 5 *.log
  exit 1
}
`

// isolated runs a command in namespaces of its own, which end with it and with
// all that it has started.
func isolated(t *testing.T, args ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "unshare", append([]string{
		"--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"}, args...)...)
}

// TestTheQuickStart does what the README says, word for word, at the ports and
// paths that it names.
func TestTheQuickStart(t *testing.T) {
	if out, err := isolated(t, "true").CombinedOutput(); err != nil {
		t.Skipf("this user may make no namespaces: %s", out)
	}
	_, section, _ := strings.Cut(pages(t)["README.md"], "\n## Quick start\n")
	section, _, found := strings.Cut(section, "**With a Connect sidecar**")
	require.True(t, found)
	typed := blocks(section, "")
	require.Len(t, typed, len(becomes))
	script := prologue
	for i, b := range typed {
		script += fmt.Sprintf("%sbecomes '%s'\n", b, strings.ReplaceAll(becomes[i], "'", `'\''`))
	}
	cmd := isolated(t, "bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+programs(t)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, line := range []string{
		"The configuration is valid.",
		"http GET http://127.0.0.1:8080/: healthy, says Envoy node-envoy",
		`"CheckID": "hds:web-1"`,
		"http GET http://127.0.0.1:8080/: unhealthy, says Envoy node-envoy",
	} {
		assert.Contains(t, string(out), line)
	}
}

// programs is a folder with the programs of the quick start, by the names that
// they have there.
func programs(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	l, err := lab.New(ctx, lab.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	consul, err := lab.ConsulBinary(ctx, os.Stderr)
	require.NoError(t, err)
	envoy, err := lab.EnvoyBinary(ctx, "", os.Stderr)
	require.NoError(t, err)
	daemon, err := l.DaemonBinary(ctx)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, path := range map[string]string{"consul": consul, "envoy": envoy, "consul-hds": daemon} {
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	return dir
}

// TestConsulTakesTheRegistrations of the migration.
func TestConsulTakesTheRegistrations(t *testing.T) {
	consul, err := lab.ConsulBinary(t.Context(), os.Stderr)
	require.NoError(t, err)
	shown := blocks(pages(t)["docs/migration.md"], "hcl")
	require.NotEmpty(t, shown)
	for _, b := range shown {
		file := filepath.Join(t.TempDir(), "web.hcl")
		require.NoError(t, os.WriteFile(file, []byte("data_dir = \"/opt/consul\"\n"+b), 0o600))
		out, err := exec.CommandContext(t.Context(), consul, "validate", file).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}
