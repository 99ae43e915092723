package bootstrap

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

// envoyReads is what Envoy reads in a bootstrap, nil if it refuses it.
func envoyReads(text []byte) *bootstrapv3.Bootstrap {
	b := &bootstrapv3.Bootstrap{}
	if protojson.Unmarshal(text, b) != nil {
		return nil
	}
	return b
}

// FuzzAddTo adds to any text: either it is refused, or adding again changes
// nothing; and what Envoy read before it reads after, with one way to the daemon.
func FuzzAddTo(f *testing.F) {
	for _, seed := range []string{
		"", sidecar, "node: {id: a}", `{"node":{"id":"a"},"hdsConfig":{}}`, "a: &a [*a]", "{{a}}: b", `[{"a":`,
		`{"node":{"id":"n"},"static_resources":{"clusters":[{"name":"consul_hds"},{"name":"b"},{"name":"consul_hds"}]}}`,
		`{"node":{"id":"n"},"staticResources":{"clusters":{"name":"b"}},"hds_config":{"grpcServices":{"envoyGrpc":{"clusterName":"consul_hds"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	a, err := New(Options{Address: "hds.internal:8510", NodeID: "n", TLS: TLS{CAFile: "/ca"}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := a.AddTo(in)
		if err != nil {
			return
		}
		again, err := a.AddTo(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		checkBootstrap(t, in, out)
	})
}

// checkBootstrap compares what Envoy reads before and after.
func checkBootstrap(t *testing.T, in, out []byte) {
	t.Helper()
	json, err := toJSON(in)
	require.NoError(t, err, "it was read")
	before, after := envoyReads(json), envoyReads(out)
	if before == nil {
		return
	}
	require.NotNil(t, after, "Envoy refuses %s", out)
	require.Equal(t, "n", after.GetNode().GetId())
	require.Equal(t, ClusterName, after.GetHdsConfig().GetGrpcServices()[0].GetEnvoyGrpc().GetClusterName())
	ours, kept := 0, 0
	for _, c := range after.GetStaticResources().GetClusters() {
		if c.GetName() == ClusterName {
			ours++
		} else {
			kept++
		}
	}
	for _, c := range before.GetStaticResources().GetClusters() {
		if c.GetName() != ClusterName {
			kept--
		}
	}
	require.Equal(t, []int{1, 0}, []int{ours, kept}, "ours once, and all others")
}
