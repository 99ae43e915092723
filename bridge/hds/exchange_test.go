package hds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

func TestSecretsOfASpecifierAreHidden(t *testing.T) {
	http := &probe.Probe{CheckID: "hds:a", Cluster: "hds:a@1", Settings: probe.Settings{
		Kind: probe.HTTP, Path: "/", Method: "POST", Body: "s3cret", Headers: map[string][]string{"Authorization": {"s3cret"}}, Host: "a",
		ExpectedStatuses: []probe.StatusRange{{First: 200, Last: 299}}, HealthyThreshold: 1, UnhealthyThreshold: 1, Interval: 1e9, Timeout: 1e9,
	}, TLS: &probe.TLS{ServerName: "a", CA: []byte("ca"), Cert: []byte("cert"), Key: probe.Secret("s3cret")}}
	m, err := buildCluster(http)
	require.NoError(t, err)
	before, err := protojson.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, hide(m))
	text, err := protojson.Marshal(m)
	require.NoError(t, err)
	for _, s := range []string{"s3cret", "czNjcmV0", "733363726574"} { // as it is, base64, hex
		assert.NotContains(t, string(text), s)
	}
	assert.Contains(t, string(text), "Authorization")
	assert.NotEqual(t, string(before), string(text))
}
