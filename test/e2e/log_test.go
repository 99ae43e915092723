package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documented finds the message of a line in the docs.
var documented = regexp.MustCompile(`(?m)^    \[[A-Z]+\]  consul-hds[.a-z]*: (.*?)(?:: [a-z_]+=.*)?$`)

func TestDocumentedLinesAreThoseOfTheCode(t *testing.T) {
	docs, err := os.ReadFile("../../docs/how-it-works.md")
	require.NoError(t, err)
	lines := documented.FindAllSubmatch(docs, -1)
	require.Greater(t, len(lines), 15)
	var code []byte
	for _, dir := range []string{"../../bridge", "../../cmd"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code = append(code, text...)
			return err
		}))
	}
	for _, l := range lines {
		assert.True(t, bytes.Contains(code, fmt.Appendf(nil, "%q", l[1])), "no line of the log says %q", l[1])
	}
}

// logLines are the lines of the daemon's log, which has to be JSON throughout.
func (w *world) logLines() (out []map[string]any) {
	w.t.Helper()
	for line := range strings.Lines(w.daemon.Log()) {
		var l map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &l), line)
		for _, key := range []string{"@level", "@message", "@timestamp"} {
			assert.NotEmpty(w.t, l[key], line)
		}
		out = append(out, l)
	}
	return out
}

// linesOf are those with a message.
func linesOf(all []map[string]any, message string) (out []map[string]any) {
	for _, l := range all {
		if l["@message"] == message {
			out = append(out, l)
		}
	}
	return out
}

func TestNothingIsLoggedInTheSteadyState(t *testing.T) {
	t.Parallel()
	const instances = 10
	w := newWorld(t, "log_level = \"info\"\nlog_json = true\nchecks {\n  ttl = \"29s\"\n}\n") // a warning of the configuration
	w.startEnvoy(theNode)
	app := w.app()
	want := map[string]string{}
	for i := range instances {
		id := fmt.Sprint("web-", i)
		w.register(id, app.Port(), map[string]string{"hds": "http"})
		want["hds:"+id] = api.HealthPassing
	}
	w.eventually(patience, all(w.has, want))
	w.eventually(slack, func() error { // the agent shows a change before the daemon has its answer
		if n := strings.Count(w.daemon.Log(), `"to":"passing"`); n != instances {
			return fmt.Errorf("%d changes are logged", n)
		}
		return nil
	})
	before := w.daemon.Log()
	w.always(30*time.Second, func() error {
		if more := strings.TrimPrefix(w.daemon.Log(), before); more != "" {
			return fmt.Errorf("it is logged: %s", more)
		}
		return nil
	})

	app.SetStatus(500)
	for id := range want {
		want[id] = api.HealthCritical
	}
	w.eventually(patience, all(w.has, want))
	code, err := w.daemon.Stop(w.ctx)
	require.NoError(t, err)
	assert.Zero(t, code)
	lines := w.logLines()
	assert.Len(t, linesOf(lines, "the configuration is valid, but"), 1)
	assertTransition(t, lines, "hds:web-3")
	assert.Len(t, linesOf(lines, "shutting down; another signal exits at once"), 1)
	assert.Len(t, linesOf(lines, "shut down"), 1)
	last := lines[len(lines)-1]
	assert.Equal(t, "shut down", last["@message"])
	took, err := time.ParseDuration(last["took"].(string))
	require.NoError(t, err)
	assert.Less(t, took, 4*time.Second)
}

// assertTransition looks at the line of a check that turned from passing to critical.
func assertTransition(t *testing.T, lines []map[string]any, checkID string) {
	t.Helper()
	for _, l := range linesOf(lines, "check changed") {
		if l["check_id"] != checkID || l["to"] != "critical" || l["from"] != "passing" {
			continue
		}
		assert.Equal(t, "info", l["@level"])
		assert.Equal(t, []any{"web", "web-3", "reported", theNode}, []any{l["service"], l["service_id"], l["phase"], l["node_id"]})
		assert.Contains(t, l["output"], ": unhealthy")
		return
	}
	t.Errorf("the log has no line of %s that turns critical", checkID)
}

// A token without agent:read: the node's name and address are known some
// milliseconds after the first read, and nobody needs to hear of it.
func TestAStartWithoutAgentReadIsQuiet(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{
		Name: "no-agent", Rules: `service_prefix "" { policy = "write" } node_prefix "" { policy = "read" }`,
	}, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(w.newToken("no-agent").SecretID), 0o600))
	w.startDaemon(quick + fmt.Sprintf("consul {\n  token_file = %q\n}\n", file))
	w.startEnvoy(theNode)
	port := w.app().Port()
	w.register("web-1", port, map[string]string{"hds": "http"})
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "api-1", Name: "api", Port: port, Meta: map[string]string{"hds": "http"}, // at the node's address
	}))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:api-1", api.HealthPassing))
	before := w.daemon.Log()
	require.NoError(t, w.daemon.Restart(w.ctx, syscall.SIGTERM))
	w.eventually(patience, func() error {
		if c, _ := w.status().Check("hds:api-1"); c.Phase != "reported" {
			return fmt.Errorf("the phase is %q", c.Phase)
		}
		return nil
	})
	w.always(5*time.Second, func() error {
		log := strings.TrimPrefix(w.daemon.Log(), before)
		for _, noise := range []string{"[WARN]", "the catalog", "problem", "no probe explains", "service_id=\"\""} {
			if strings.Contains(log, noise) {
				return fmt.Errorf("%s is logged:\n%s", noise, log)
			}
		}
		return nil
	})
}
