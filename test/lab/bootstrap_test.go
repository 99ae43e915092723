package lab

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

func TestDecodeBootstrap(t *testing.T) {
	overlay, err := EnvoyOptions{NodeID: "a", HDSAddr: "unix:///run/hds.sock"}.observe([]byte("{}"))
	require.NoError(t, err)
	got, err := DecodeBootstrap(overlay)
	require.NoError(t, err)
	assert.Equal(t, "consul_hds", got.StaticResources.Clusters[0].Name)

	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"hds_conf: {}", `unknown field "hds_conf"`},
		"unknown in Any":   {`static_resources: {clusters: [{name: a, typed_extension_protocol_options: {x: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, nope: 1}}}]}`, `unknown field "nope"`},
		"key twice":        {"node: {id: a}\nnode: {id: b}", "already set"},
		"against the rule": {"static_resources: {clusters: [{name: \"\"}]}", "Cluster.Name"},
		"not YAML":         {"a: [", "did not find"},
	} {
		_, err := DecodeBootstrap([]byte(c.text))
		assert.ErrorContains(t, err, c.want, name)
	}

	fromJSON, err := DecodeBootstrap([]byte(`{"node": {"id": "a"}}`))
	require.NoError(t, err)
	fromYAML, err := DecodeBootstrap([]byte("node:\n  id: a\n"))
	require.NoError(t, err)
	assert.True(t, proto.Equal(fromJSON, fromYAML))
}
