package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// TestAPollByTheDaemonsOwnClientCostsLittle: of what the agent answers nothing is
// copied, by any layer of the client, while it is the same as before.
func TestAPollByTheDaemonsOwnClientCostsLittle(t *testing.T) {
	noConsulEnv(t)
	services := map[string]api.AgentService{}
	for i := range 2000 {
		id := fmt.Sprintf("web-%05d", i)
		services[id] = api.AgentService{ID: id, Service: id, Port: 1 + i, Meta: map[string]string{"hds": "http"}}
	}
	list, err := json.Marshal(services)
	require.NoError(t, err)
	polled := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/agent/services":
			_, _ = w.Write(list)
		case "/v1/agent/checks": // which is read last
			_, _ = w.Write([]byte("{}"))
			select {
			case polled <- struct{}{}:
			case <-r.Context().Done():
			}
		default:
			<-r.Context().Done() // the doorbell, which never rings
		}
	}))
	defer s.Close()
	client := clientOf(t, s)
	w, err := catalog.New(catalog.Config{Client: client, Node: catalog.Node{Name: "n1", Address: "192.0.2.1"}, PollInterval: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = w.Run(ctx) })
	polls := func(n int) (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			<-polled
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	polls(5) // connections, buffers
	require.Len(t, w.Snapshot().Instances, 2000)
	assert.Less(t, polls(20), uint64(len(list)))
}
