package nomad

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
	"github.com/consul-hds/consul-hds/test/lab"
)

// sidecarArgs are the args that Nomad gives a sidecar; a job that sets any
// replaces them all.
var sidecarArgs = []any{
	"-c", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
	"-l", "${meta.connect.log_level}",
	"--concurrency", "${meta.connect.proxy_concurrency}",
	"--disable-hot-restart",
}

// web is the sample job's group, and its service with the sidecar.
func web(t *testing.T) (*api.TaskGroup, *api.Service) {
	t.Helper()
	job := parse(t, "web-with-sidecar.nomad.hcl")
	require.Len(t, job.TaskGroups, 1)
	require.Len(t, job.TaskGroups[0].Services, 1)
	return job.TaskGroups[0], job.TaskGroups[0].Services[0]
}

// overlay is the text that the sidecar's Envoy gets by --config-yaml.
func overlay(t *testing.T) string {
	t.Helper()
	_, service := web(t)
	args := service.Connect.SidecarTask.Config["args"].([]any)
	n := len(sidecarArgs)
	require.Len(t, args, n+2)
	require.Equal(t, sidecarArgs, args[:n])
	require.Equal(t, "--config-yaml", args[n])
	return args[n+1].(string)
}

func TestTheSidecarReachesTheDaemon(t *testing.T) {
	group, service := web(t)
	assert.Equal(t, "bridge", group.Networks[0].Mode)
	task := service.Connect.SidecarTask
	dir := socketDir(t, group, task.VolumeMounts)
	assert.True(t, *task.VolumeMounts[0].ReadOnly)

	text := overlay(t)
	assert.True(t, json.Valid([]byte(text)))
	got, err := lab.DecodeBootstrap([]byte(text))
	require.NoError(t, err)
	socket := "unix://" + dir + "/hds.sock"
	want, err := lab.HDSClient(socket)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	daemon := parse(t, daemonJobs[0]).TaskGroups[0].Tasks[0]
	assert.Equal(t, []string{socket}, configuration(t, daemon, "").HDS.Listen)
}

func TestEnvoyTakesTheOverlay(t *testing.T) {
	envoy, err := lab.EnvoyBinary(t.Context(), "", os.Stderr)
	require.NoError(t, err)
	base := filepath.Join(t.TempDir(), "base.json")
	require.NoError(t, os.WriteFile(base, []byte(`{"node": {"id": "web-sidecar-proxy", "cluster": "web"}}`), 0o600))
	out, err := exec.CommandContext(t.Context(), envoy,
		"--mode", "validate", "--disable-hot-restart", "-c", base, "--config-yaml", overlay(t)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The meta of the sample ask for one probe, by the sidecar.
func TestTheSampleIsProbed(t *testing.T) {
	_, service := web(t)
	rules := configuration(t, parse(t, daemonJobs[0]).TaskGroups[0].Tasks[0], "").Rules()
	snapshot := &catalog.Snapshot{Instances: map[string]*catalog.Instance{
		"web": {ID: "web", Service: service.Name, Address: "10.0.0.5", Port: 8080, Meta: service.Meta},
		"web-sidecar-proxy": {ID: "web-sidecar-proxy", Service: "web-sidecar-proxy", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{
			DestinationServiceName: "web", DestinationServiceID: "web", LocalServiceAddress: "127.0.0.1", LocalServicePort: 8080,
		}},
	}, Checks: map[string]*catalog.Check{"alias": {ServiceID: "web-sidecar-proxy", Type: catalog.CheckTypeAlias}}}
	got := probe.Derive(probe.World{Snapshot: snapshot}, &rules, nil)
	require.Empty(t, got.Problems)
	require.Len(t, got.Probes, 1)
}
