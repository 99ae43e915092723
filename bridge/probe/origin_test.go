package probe

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

func TestOriginsNameTheUppermostSource(t *testing.T) {
	rules := &Rules{
		Defaults:      Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: Auto, Mode: Enforce, TLSCAFile: "/ca"},
		DefaultPlaces: Places{"interval": "agent.hcl:3", "timeout": "default", "ca_file": "agent.hcl:9"},
		Services: []Service{{Name: "web", Checks: []Check{{
			Name: DefaultName,
			Settings: Settings{
				Kind: HTTP, Path: "/config", Timeout: 2 * time.Second, UnhealthyThreshold: 5, Headers: map[string][]string{"X-Key": {"secret"}},
				TLS: On, TLSServerName: "web.internal",
			},
			Places: Places{"kind": "web.hcl:2", "http.path": "web.hcl:3", "timeout": "web.hcl:1", "unhealthy_threshold": "web.hcl:4", "http.header": "web.hcl:5", "http.tls": "web.hcl:6", "http.tls.server_name": "web.hcl:7"},
		}}}},
	}
	inst := &catalog.Instance{ID: "web-1", Service: "web", Address: "127.0.0.1", Port: 80, Meta: map[string]string{"hds_path": "/meta", "hds_unhealthy_threshold": "3"}}
	got := originsOf(t, inst, rules)
	assert.Equal(t, map[string][2]string{
		"kind": {"http", "web.hcl:2"}, "interval": {"1s", "agent.hcl:3"}, "timeout": {"2s", "web.hcl:1"},
		"healthy_threshold": {"1", "default"}, "unhealthy_threshold": {"3", "meta hds_unhealthy_threshold"},
		"observer": {"auto", "default"}, "mode": {"enforce", "default"},
		"http.path": {"/meta", "meta hds_path"}, "http.method": {"GET", "default"}, "http.expected_statuses": {"200-299", "default"},
		"http.host": {"127.0.0.1:80", "default"}, "http.header": {"X-Key (values hidden)", "web.hcl:5"}, "http.tls": {"true", "web.hcl:6"},
		"http.tls.server_name": {"web.internal", "web.hcl:7"}, "http.tls.ca_file": {"/ca", "agent.hcl:9"},
	}, got)

	inst.Meta = map[string]string{"hds": "tcp"} // another kind replaces the kind block whole
	got = originsOf(t, inst, rules)
	assert.Equal(t, [2]string{"tcp", "meta hds"}, got["kind"])
	assert.Equal(t, [2]string{"2s", "web.hcl:1"}, got["timeout"])
	assert.NotContains(t, got, "tcp.path")
}

func originsOf(t *testing.T, inst *catalog.Instance, rules *Rules) map[string][2]string {
	t.Helper()
	snap := &catalog.Snapshot{Instances: map[string]*catalog.Instance{inst.ID: inst}}
	world := World{Snapshot: snap, Files: map[string]Known[[]byte]{"/ca": {Value: newAuthority(t).pem, Good: true}}}
	result := Derive(world, rules, nil)
	require.Len(t, result.Probes, 1, result.Problems)
	out := map[string][2]string{}
	for _, o := range Origins(inst, result.Probes[0], rules) {
		out[o.Attribute] = [2]string{o.Value, o.Source}
	}
	return out
}

func TestEveryFieldHasAnAttributeName(t *testing.T) {
	fields := reflect.TypeOf(Settings{})
	for i := range fields.NumField() {
		assert.Contains(t, attributeNames, fields.Field(i).Name)
	}
	assert.Len(t, attributeNames, fields.NumField())
}
