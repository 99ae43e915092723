package bootstrap

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyValue draws a JSON value of at most so many levels, whose keys are those
// that matter and others.
func anyValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	switch {
	case kind == 0 && depth > 0:
		var list []any
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, anyValue(t, depth-1))
		}
		return list
	case kind <= 2 && depth > 0:
		return anyObject(t, depth-1)
	case kind == 3:
		return json.Number(rapid.StringMatching(`-?[1-9][0-9]{0,30}(\.[0-9]{1,20})?(e[0-9]{1,3})?`).Draw(t, "number"))
	case kind == 4:
		return rapid.SampledFrom([]any{nil, true, false, ClusterName}).Draw(t, "constant")
	default:
		return rapid.String().Draw(t, "string")
	}
}

func anyObject(t *rapid.T, depth int) object {
	names := []string{"hds_config", "static_resources", "node", "clusters", "name", "grpc_services", "envoy_grpc", "cluster_name", "id"}
	o := object{}
	for range rapid.IntRange(0, 4).Draw(t, "size") {
		key := rapid.OneOf(rapid.SampledFrom(names), rapid.String()).Draw(t, "key")
		o[key] = anyValue(t, depth)
	}
	return o
}

// TestWhatIsNotOursIsKept completes any document and takes the addition out
// again: what is left is the document.
func TestWhatIsNotOursIsKept(t *testing.T) {
	a, err := New(Options{Address: socket})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		doc := anyObject(t, 5)
		delete(doc, "hds_config")
		doc["node"] = object{"id": "a", "metadata": anyValue(t, 3)}
		doc["static_resources"] = object{"clusters": []any{object{"name": "b", "c": anyValue(t, 3)}}, "d": anyValue(t, 3)}
		in, err := encode(doc, "")
		require.NoError(t, err)
		out, err := a.AddTo(in)
		require.NoError(t, err)
		again, err := a.AddTo(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))

		got, err := decode(out)
		require.NoError(t, err)
		delete(got, "hds_config")
		resources := got["static_resources"].(object)
		clusters := resources["clusters"].([]any)
		resources["clusters"] = clusters[:len(clusters)-1]
		left, err := encode(got, "")
		require.NoError(t, err)
		require.Equal(t, string(in), string(left))
	})
}
