package nomad

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	consul "github.com/hashicorp/consul/api"
	"github.com/hashicorp/hcl/v2/hclsimple"
	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/config"
)

// folder is where the files for Nomad are.
const folder = "../../nomad"

// shutdown is what the daemon takes at the most to end in order (README.md,
// "Commands").
const shutdown = 4 * time.Second

// variables are the values that the jobs need of whoever runs them.
var variables = map[string]string{"binary": "https://example.com/consul-hds", "checksum": "sha256:00", "image": "consul-hds:1"}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return b
}

// parse decodes a job and lets nomad/api add the defaults.
func parse(t *testing.T, name string) *api.Job {
	t.Helper()
	job, err := ParseJob(name, read(t, name), variables)
	require.NoError(t, err)
	job.Canonicalize()
	return job
}

// daemonJobs are the two variants of the daemon's job.
var daemonJobs = []string{"consul-hds.nomad.hcl", "consul-hds-docker.nomad.hcl"}

// TestEveryFileIsTested wants a file to be in a test of this package, or of
// test/e2e (policy.hcl, and the auth method on a real Consul), before it is
// shipped.
func TestEveryFileIsTested(t *testing.T) {
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, append([]string{
		"README.md", "auth-method.json", "binding-rule.json", "client.hcl", "policy.hcl", "web-with-sidecar.nomad.hcl",
	}, daemonJobs...), names)
}

// rendered is a template as Nomad renders it on a client, with a Nomad variable
// for the job or, where that is empty, without.
func rendered(t *testing.T, data, nomadVariable string) string {
	t.Helper()
	const variablePath = "nomad/jobs/consul-hds" // which the job may read without a policy
	env := map[string]string{"NOMAD_ADDR_metrics": "10.0.0.5:8512"}
	parsed, err := template.New("").Funcs(template.FuncMap{
		"env": func(name string) string {
			require.Contains(t, env, name)
			return env[name]
		},
		"nomadVarExists": func(path string) bool {
			require.Equal(t, variablePath, path)
			return nomadVariable != ""
		},
		"nomadVar": func(path string) map[string]string {
			require.Equal(t, variablePath, path)
			return map[string]string{"config": nomadVariable}
		},
	}).Parse(data)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, parsed.Execute(&out, nil))
	return out.String()
}

// configuration is what the daemon reads from the templates of its task, all in
// one folder.
func configuration(t *testing.T, task *api.Task, nomadVariable string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for _, one := range task.Templates {
		assert.Equal(t, "local/config", path.Dir(*one.DestPath))
		assert.Equal(t, "signal", *one.ChangeMode)
		assert.Equal(t, "SIGHUP", *one.ChangeSignal)
		file := filepath.Join(dir, path.Base(*one.DestPath))
		require.NoError(t, os.WriteFile(file, []byte(rendered(t, *one.EmbeddedTmpl, nomadVariable)), 0o600))
	}
	loaded, diags := config.Load(config.Options{Paths: []string{dir}})
	require.Empty(t, diags)
	return loaded.Config
}

func TestTheNomadVariableIsMoreConfiguration(t *testing.T) {
	more := "hds {\n  node_ids = [\"mine\"]\n}\nservice \"web\" {\n  check \"ready\" {\n    tcp {}\n  }\n}\n"
	for _, name := range daemonJobs {
		c := configuration(t, parse(t, name).TaskGroups[0].Tasks[0], more)
		assert.Equal(t, []string{"mine"}, c.HDS.NodeIDs, "it wins over the job")
		require.Len(t, c.Services, 1)
	}
}

func TestTheDaemonJobs(t *testing.T) {
	for _, name := range daemonJobs {
		t.Run(name, func(t *testing.T) {
			job := parse(t, name)
			assert.Equal(t, "consul-hds", *job.ID)
			assert.Equal(t, api.JobTypeSystem, *job.Type)
			assert.Greater(t, *job.Priority, api.JobDefaultPriority)
			assert.Equal(t, 1, *job.Update.MaxParallel)
			require.Len(t, job.TaskGroups, 1)
			group := job.TaskGroups[0]
			require.Len(t, group.Tasks, 1)
			task := group.Tasks[0]
			c := configuration(t, task, "")

			assert.Greater(t, *task.KillTimeout, shutdown)
			assert.Equal(t, "delay", *group.RestartPolicy.Mode, "it never gives up")
			assert.Less(t, *task.KillTimeout+*group.RestartPolicy.Interval, c.Checks.TTL, "the checks outlive a restart")
			assert.GreaterOrEqual(t, *job.Update.Stagger, c.Checks.AdoptTimeout, "all probes of a node are answered before the next one")
			assert.Equal(t, []any{"agent", "-config-dir", "${NOMAD_TASK_DIR}/config"}, task.Config["args"])

			require.Len(t, task.Identities, 1)
			assert.Equal(t, "consul_default", task.Identities[0].Name)
			assert.Equal(t, []string{"consul.io"}, task.Identities[0].Audience)
			assert.Empty(t, c.Consul.TokenFile, "the token comes by the environment")

			assert.Equal(t, "host", group.Networks[0].Mode)
			assert.Equal(t, socketDir(t, group, task.VolumeMounts), c.DataDir)
			assert.Equal(t, []string{"unix://" + c.DataDir + "/hds.sock"}, c.HDS.Listen)
			assert.False(t, group.Volumes["consul-hds"].ReadOnly)
		})
	}
}

func TestTheDaemonsService(t *testing.T) {
	for _, name := range daemonJobs {
		group := parse(t, name).TaskGroups[0]
		c := configuration(t, group.Tasks[0], "")
		require.Len(t, group.Services, 1)
		service := group.Services[0]
		require.Len(t, group.Networks[0].ReservedPorts, 0)
		require.Len(t, group.Networks[0].DynamicPorts, 1)
		port := group.Networks[0].DynamicPorts[0]
		assert.Equal(t, port.Label, service.PortLabel)
		assert.Equal(t, 8512, port.Value)
		assert.Equal(t, "10.0.0.5:8512", c.Admin.MetricsListen)
		require.Len(t, service.Checks, 2)
		assert.Equal(t, "/v1/health", service.Checks[0].Path)
		assert.NotNil(t, service.Checks[0].CheckRestart)
		assert.Equal(t, "/v1/ready", service.Checks[1].Path)
		assert.Nil(t, service.Checks[1].CheckRestart, "a Consul that does not answer is no reason to restart")
	}
}

// socketDir is where a task has the directory of the daemon's socket, which the
// group mounts from the host volume of client.hcl.
func socketDir(t *testing.T, group *api.TaskGroup, mounts []*api.VolumeMount) string {
	t.Helper()
	require.Len(t, mounts, 1)
	volume := group.Volumes[*mounts[0].Volume]
	require.NotNil(t, volume)
	assert.Equal(t, "host", volume.Type)
	assert.Contains(t, hostVolumes(t), volume.Source)
	return *mounts[0].Destination
}

// hostVolumes are the volumes of client.hcl: their directories by name.
func hostVolumes(t *testing.T) map[string]string {
	t.Helper()
	var agent struct {
		Client struct {
			HostVolumes []struct {
				Name     string `hcl:"name,label"`
				Path     string `hcl:"path"`
				ReadOnly bool   `hcl:"read_only,optional"`
			} `hcl:"host_volume,block"`
		} `hcl:"client,block"`
	}
	require.NoError(t, hclsimple.Decode("client.hcl", read(t, "client.hcl"), nil, &agent))
	paths := map[string]string{}
	for _, v := range agent.Client.HostVolumes {
		assert.False(t, v.ReadOnly, "the daemon makes its socket there")
		paths[v.Name] = v.Path
	}
	return paths
}

// The two variants differ in what is the driver's, and in nothing else.
func TestTheVariantsAreOneJob(t *testing.T) {
	exec, docker := parse(t, daemonJobs[0]), parse(t, daemonJobs[1])
	for _, job := range []*api.Job{exec, docker} {
		task := job.TaskGroups[0].Tasks[0]
		task.Driver, task.User, task.Config, task.Artifacts = "", "", nil, nil
	}
	assert.Equal(t, exec, docker)
}

// driverConfig are the attributes that Nomad documents for the block config of
// each driver, as far as the jobs use them; nomad/api leaves them open.
var driverConfig = map[string][]string{
	"exec":   {"command", "args"},
	"docker": {"image", "command", "args", "network_mode", "readonly_rootfs", "cap_drop", "security_opt"},
}

func TestDriversKnowTheirConfig(t *testing.T) {
	for _, name := range append([]string{"web-with-sidecar.nomad.hcl"}, daemonJobs...) {
		task := parse(t, name).TaskGroups[0].Tasks[0]
		for key := range task.Config {
			assert.Contains(t, driverConfig[task.Driver], key, name)
		}
	}
	assert.Equal(t, "host", parse(t, daemonJobs[1]).TaskGroups[0].Tasks[0].Config["network_mode"], "the agent is on the host's loopback")
}

// strictly decodes JSON into one of Consul's own structs. What the struct does not
// know is not there any more when it is written again.
func strictly(t *testing.T, name string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(read(t, name), into))
	again, err := json.Marshal(into)
	require.NoError(t, err)
	var file, known map[string]any
	require.NoError(t, json.Unmarshal(read(t, name), &file))
	require.NoError(t, json.Unmarshal(again, &known))
	for key, value := range file {
		assert.Equal(t, value, known[key], "%s: %s", name, key)
	}
}

// TestTheAuthMethodFitsTheJob wants the names in the files for Consul to be those
// of the job. test/e2e logs in by them.
func TestTheAuthMethodFitsTheJob(t *testing.T) {
	var method consul.ACLAuthMethod
	strictly(t, "auth-method.json", &method)
	var rule consul.ACLBindingRule
	strictly(t, "binding-rule.json", &rule)
	assert.Equal(t, method.Name, rule.AuthMethod)
	assert.Zero(t, method.MaxTokenTTL, "Nomad does not renew Consul tokens")
	for _, name := range daemonJobs {
		job := parse(t, name)
		task := job.TaskGroups[0].Tasks[0]
		assert.Contains(t, rule.Selector, `value.nomad_namespace == "`+*job.Namespace+`"`)
		assert.Contains(t, rule.Selector, `value.nomad_job_id == "`+*job.ID+`"`)
		assert.Contains(t, rule.Selector, `value.nomad_task == "`+task.Name+`"`)
		assert.ElementsMatch(t, method.Config["BoundAudiences"], task.Identities[0].Audience)
	}
}

// TestTheREADMENamesEveryFile also wants the directory that it makes to be that of
// the host volume.
func TestTheREADMENamesEveryFile(t *testing.T) {
	readme := string(read(t, "README.md"))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != "README.md" {
			assert.Contains(t, readme, "("+e.Name()+")")
		}
	}
	dir := hostVolumes(t)["consul-hds"]
	require.True(t, path.IsAbs(dir))
	user := parse(t, daemonJobs[1]).TaskGroups[0].Tasks[0].User
	uid, gid, _ := strings.Cut(user, ":")
	assert.Contains(t, readme, "install -d -o "+uid+" -g "+gid+" -m 2750 "+dir+"\n")
	assert.Contains(t, readme, "useradd --system --uid "+uid+" --no-create-home --shell /usr/sbin/nologin "+parse(t, daemonJobs[0]).TaskGroups[0].Tasks[0].User+"\n")
}
