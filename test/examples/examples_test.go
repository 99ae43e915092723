// Package examples reads the files of the folder examples as those programs do
// that they are made for.
package examples

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclsimple"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

// folder is where the examples are.
const folder = "../../examples"

// tested are the files that the tests of this package read. agent.hcl is
// compared with the schema by config/schema_test.go too; those for Grafana and
// Prometheus are read by test/extras.
var tested = []string{
	"README.md", "agent.hcl", "consul-hds.service", "envoy-plain.yaml",
	"grafana/consul-hds.json", "ingress.sh", "prometheus/consul-hds.rules.test.yml", "prometheus/consul-hds.rules.yml", "sidecar.sh",
	"vm/consul-hds.hcl", "vm/consul.hcl", "vm/web.hcl",
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return string(b)
}

// run runs a command, which has to succeed, and returns all that it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestEveryFileIsTestedAndIntroducesItself(t *testing.T) {
	var files []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(folder, path)
			files = append(files, name)
		}
		return err
	}))
	require.ElementsMatch(t, tested, files)
	index := read(t, "README.md")
	for _, name := range files {
		if filepath.Ext(name) != ".json" { // which has no comments; the dashboard describes itself
			assert.True(t, strings.HasPrefix(read(t, name), "#"), "%s does not begin with what it is for", name)
		}
		if top, _, _ := strings.Cut(name, "/"); top != "README.md" {
			assert.Contains(t, index, "]("+top+")", "the index lacks %s", name)
		}
	}
}

func load(t *testing.T, name string) *config.Config {
	t.Helper()
	loaded, diags := config.Load(config.Options{Paths: []string{filepath.Join(folder, name)}})
	require.Empty(t, diags)
	return loaded.Config
}

func TestConfigurationsAreValid(t *testing.T) {
	load(t, "agent.hcl")
	c := load(t, "vm/consul-hds.hcl")
	// The files of the machine without Nomad fit together.
	assert.Contains(t, c.HDS.NodeIDs, bootstrap(t, read(t, "envoy-plain.yaml")).Node.Id)
	assert.Contains(t, read(t, "consul-hds.service"), "install -o root -g consul-hds -m 0640 TOKEN "+c.Consul.TokenFile+"\n")
}

func bootstrap(t *testing.T, text string) *bootstrapv3.Bootstrap {
	t.Helper()
	b, err := lab.DecodeBootstrap([]byte(text))
	require.NoError(t, err)
	return b
}

// The plain Envoy is a client of the daemon as the lab's Envoys are.
func TestThePlainEnvoy(t *testing.T) {
	want, err := lab.HDSClient(load(t, "agent.hcl").HDS.Listen[0])
	require.NoError(t, err)
	want.Node = &corev3.Node{Id: "node-envoy", Cluster: "node"}
	got := bootstrap(t, read(t, "envoy-plain.yaml"))
	assert.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

// definition is what Consul reads from vm/web.hcl, as far as the daemon sees it.
type definition struct {
	Service struct {
		ID   string            `hcl:"id"`
		Name string            `hcl:"name"`
		Port int               `hcl:"port"`
		Meta map[string]string `hcl:"meta"`
	} `hcl:"service,block"`
}

func TestTheServiceIsProbed(t *testing.T) {
	var d definition
	require.NoError(t, hclsimple.DecodeFile(filepath.Join(folder, "vm/web.hcl"), nil, &d))
	s := d.Service
	snapshot := &catalog.Snapshot{
		Node:      catalog.Node{Name: "n1", Address: "10.0.0.1"},
		Instances: map[string]*catalog.Instance{s.ID: {ID: s.ID, Service: s.Name, Port: s.Port, Meta: s.Meta}},
	}
	rules := load(t, "vm/consul-hds.hcl").Rules()
	got := probe.Derive(probe.World{Snapshot: snapshot}, &rules, nil)
	require.Empty(t, got.Problems)
	require.Len(t, got.Probes, 1)
}

func TestConsulTakesItsFiles(t *testing.T) {
	consul, err := lab.ConsulBinary(t.Context(), os.Stderr)
	require.NoError(t, err)
	run(t, consul, "validate", filepath.Join(folder, "vm/consul.hcl"), filepath.Join(folder, "vm/web.hcl"))
}

func TestEnvoyTakesItsFile(t *testing.T) {
	envoy, err := lab.EnvoyBinary(t.Context(), "", os.Stderr)
	require.NoError(t, err)
	run(t, envoy, "--mode", "validate", "-c", filepath.Join(folder, "envoy-plain.yaml"), "--use-dynamic-base-id")
}

func TestScriptsAreShell(t *testing.T) {
	for _, name := range tested {
		if filepath.Ext(name) == ".sh" {
			run(t, "bash", "-n", filepath.Join(folder, name))
		}
	}
}

// directive is a line of a systemd unit.
var directive = regexp.MustCompile(`^([A-Za-z]+)=(.*)$`)

// unit reads a systemd unit: the values of each directive, by section and name.
func unit(t *testing.T, text string) map[string][]string {
	t.Helper()
	section, values := "", map[string][]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch m := directive.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case m != nil && section != "":
			values[section+"."+m[1]] = append(values[section+"."+m[1]], m[2])
		default:
			t.Errorf("%q is no line of a unit", line)
		}
	}
	return values
}

func TestTheUnit(t *testing.T) {
	values := unit(t, read(t, "consul-hds.service"))
	for name, want := range map[string]string{
		"Service.Type":                     "exec",
		"Service.ExecStart":                "/usr/bin/consul-hds agent -config-dir /etc/consul-hds.d",
		"Service.ExecReload":               "/bin/kill -HUP $MAINPID",
		"Service.User":                     "consul-hds",
		"Service.Restart":                  "always",
		"Service.RestartPreventExitStatus": "2",
		"Service.TimeoutStopSec":           "10", // the daemon takes up to 4 s
		"Unit.StartLimitIntervalSec":       "0",  // it never gives up
		// What is in containers is the directory, so it must outlive the daemon.
		"Service.RuntimeDirectory": "consul-hds",
		// Who is in hds.socket_group need not be in the daemon's group.
		"Service.RuntimeDirectoryMode":     "0755",
		"Service.RuntimeDirectoryPreserve": "yes",
		"Service.NoNewPrivileges":          "yes",
		"Service.CapabilityBoundingSet":    "",
		"Service.ProtectSystem":            "strict",
		"Service.RestrictAddressFamilies":  "AF_UNIX AF_INET AF_INET6",
		"Install.WantedBy":                 "multi-user.target",
	} {
		assert.Equal(t, []string{want}, values[name], name)
	}
	c := load(t, "agent.hcl") // whose directories are the defaults
	assert.Equal(t, "/run/"+values["Service.RuntimeDirectory"][0], c.DataDir)
	assert.Equal(t, []string{"unix://" + c.DataDir + "/hds.sock"}, c.HDS.Listen)
}

// Where systemd is installed, it says which directives it does not know.
func TestSystemdKnowsTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed; TestTheUnit has read the unit")
	}
	// The binary of ExecStart has to exist.
	own := filepath.Join(t.TempDir(), "consul-hds.service")
	text := strings.ReplaceAll(read(t, "consul-hds.service"), "/usr/bin/consul-hds", "/bin/true")
	require.NoError(t, os.WriteFile(own, []byte(text), 0o600))
	out, err := exec.CommandContext(t.Context(), analyze, "verify", own).CombinedOutput()
	assert.NoError(t, err)
	assert.Empty(t, string(out))
}

// What the daemon does to a socket's group and mode must not be its death.
func TestTheUnitLetsSocketsBeGivenToAGroup(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed; it knows the sets of system calls")
	}
	allowed := map[string]bool{}
	for _, line := range unit(t, read(t, "consul-hds.service"))["Service.SystemCallFilter"] {
		sets, removed := strings.CutPrefix(line, "~")
		for _, set := range strings.Fields(sets) {
			for _, call := range systemCalls(t, analyze, set) {
				allowed[call] = !removed
			}
		}
	}
	assert.True(t, allowed["fchownat"], "hds.socket_group")
	assert.True(t, allowed["fchmodat"], "hds.socket_mode")
	assert.False(t, allowed["setuid"], "the filter is read as systemd reads it")
}

// systemCalls are those of a set of systemd's, and of the sets in it.
func systemCalls(t *testing.T, analyze, set string) (calls []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), analyze, "syscall-filter", set).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		switch name := strings.TrimSpace(line); {
		case name == set || name == "" || name[0] == '#':
		case name[0] == '@':
			calls = append(calls, systemCalls(t, analyze, name)...)
		default:
			calls = append(calls, name)
		}
	}
	return calls
}
