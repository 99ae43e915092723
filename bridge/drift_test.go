package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// driftWriter shows what a test says, and notes what is healed.
type driftWriter struct {
	states map[string]checks.State
	healed []string
}

func (w *driftWriter) States() map[string]checks.State { return w.states }
func (w *driftWriter) Heal(id string)                  { w.healed = append(w.healed, id) }

func TestAStatusThatDiffersTwiceIsDrift(t *testing.T) {
	w := &driftWriter{states: map[string]checks.State{
		"same": {Status: health.Passing}, "stuck": {Status: health.Critical}, "moving": {Status: health.Passing},
		"lost": {Status: health.Warning}, "none": {}, "foreign": {Status: health.Passing, Foreign: true},
	}}
	found := 0
	d := &drift{writer: w, found: func() { found++ }, logger: hclog.NewNullLogger()}
	shown := map[string]health.Status{"same": health.Passing, "stuck": health.Passing, "moving": health.Critical}
	d.compare(shown)
	assert.Empty(t, w.healed, "a write may be on its way")
	w.states["moving"] = checks.State{Status: health.Warning}
	d.compare(shown)
	assert.ElementsMatch(t, []string{"stuck", "lost"}, w.healed)
	assert.Equal(t, 2, found)
	w.healed = nil
	d.compare(map[string]health.Status{"same": health.Passing, "stuck": health.Critical, "moving": health.Warning, "lost": health.Warning})
	assert.Empty(t, w.healed)
}

func TestWhatCannotBeReadSaysNothing(t *testing.T) {
	w := &driftWriter{states: map[string]checks.State{"a": {Status: health.Critical}}}
	node := ""
	var failure error
	reads := 0
	d := &drift{
		writer: w, found: func() {}, logger: hclog.NewNullLogger(), node: func() string { return node },
		catalog: func(context.Context, string) (map[string]health.Status, error) {
			reads++
			return map[string]health.Status{}, failure
		},
	}
	d.look(t.Context())
	assert.Zero(t, reads, "the node is not known")
	node = "n1"
	d.look(t.Context())
	failure = errors.New("no")
	d.look(t.Context())
	failure = nil
	d.look(t.Context())
	assert.Equal(t, 3, reads)
	assert.Empty(t, w.healed, "nothing is counted across a failure")
	d.look(t.Context())
	assert.Equal(t, []string{"a"}, w.healed)
}

func TestTheCatalogIsComparedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		d := &drift{
			writer: &driftWriter{}, node: func() string { return "n1" },
			catalog: func(context.Context, string) (map[string]health.Status, error) { reads.Add(1); return nil, nil },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); d.run(ctx) }()
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		assert.EqualValues(t, 5, reads.Load())
		cancel()
		<-done
	})
}

func TestTheCatalogIsReadInOurNamespaceAndPartition(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/health/node/n1", r.URL.Path)
		q := r.URL.Query()
		assert.Equal(t, []string{"team-a", "rack-b"}, []string{q.Get("ns"), q.Get("partition")})
		_, _ = fmt.Fprint(w, `[{"CheckID": "serfHealth", "Status": "passing"}, {"CheckID": "hds:web-1", "Status": "critical"}]`)
	}))
	defer server.Close()
	client, err := api.NewClient(&api.Config{Address: server.URL})
	require.NoError(t, err)
	got, err := catalogStatuses(client, "team-a", "rack-b")(t.Context(), "n1")
	require.NoError(t, err)
	assert.Equal(t, map[string]health.Status{"serfHealth": health.Passing, "hds:web-1": health.Critical}, got)
}
