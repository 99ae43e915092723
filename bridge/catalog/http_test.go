package catalog_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	_, client := newFake(t)
	catalogtest.Contract(t, client)
}

// Any client does, at a price.
func TestContractOfAClientOfAnyTransport(t *testing.T) {
	_, client := newFakeFor(t, false)
	catalogtest.Contract(t, client)
}

func TestTheDoorbellAsksForNoServices(t *testing.T) {
	f, client := newFake(t)
	filters := make(chan string, 100)
	f.setOverride(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/catalog/node-services/") {
			filters <- r.FormValue("filter")
		}
		return false
	})
	catalogtest.Start(t, client, time.Hour)
	assert.Equal(t, `ID == ""`, <-filters)
}

func TestNewRefuses(t *testing.T) {
	_, err := catalog.New(catalog.Config{})
	require.Error(t, err)
	client, err := api.NewClient(api.DefaultConfig())
	require.NoError(t, err)
	_, err = catalog.New(catalog.Config{Client: client, PollInterval: -1})
	require.Error(t, err)
}

// A token that loses rights gets shorter lists, and no error.
func TestShortenedListKeeps(t *testing.T) {
	f, client := newFake(t)
	for _, id := range []string{"kept", "gone"} {
		require.NoError(t, client.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: id, Name: "s"}))
	}
	w := catalogtest.Start(t, client, 20*time.Millisecond)
	catalogtest.Await(t, w, func(s *catalog.Snapshot) bool { return len(s.Instances) == 2 })
	f.hide("kept", true)
	require.NoError(t, client.Agent().ServiceDeregister("gone"))
	s := catalogtest.Await(t, w, func(s *catalog.Snapshot) bool { return s.Instances["gone"] == nil })
	for range 3 {
		assert.Contains(t, s.Instances, "kept")
		s = catalogtest.Await(t, w, func(n *catalog.Snapshot) bool { return n.ReadAt.After(s.ReadAt) })
	}
	f.hide("kept", false)
	catalogtest.Await(t, w, func(n *catalog.Snapshot) bool { return n.ReadAt.After(s.ReadAt) })
	require.NoError(t, client.Agent().ServiceDeregister("kept"))
	catalogtest.Await(t, w, func(s *catalog.Snapshot) bool { return s.Instances["kept"] == nil })
}

// Whatever is not a complete answer is no snapshot, and the last one stands.
func TestBadAnswersAreNoSnapshot(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	bad := map[string]http.HandlerFunc{
		"500": answer(500, "no leader"), "429": answer(429, "slow down"), "403": answer(403, "ACL not found"),
		"null": answer(200, "null"), "list": answer(200, "[]"), "text": answer(200, "<html>"),
		"empty": answer(200, ""), "cut": answer(200, `{"a":{"Service":"x"`),
		"nameless": answer(200, `{"a":{}}`), "type": answer(200, `{"a":{"Service":"x","Port":"y","Status":1}}`),
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for _, path := range []string{"/v1/agent/services", "/v1/agent/checks"} {
		for name, handler := range bad {
			if name == "nameless" && strings.HasSuffix(path, "checks") {
				continue // a check needs no name
			}
			t.Run(path+" "+name, func(t *testing.T) { tryBadAnswer(t, path, handler) })
		}
	}
}

func tryBadAnswer(t *testing.T, path string, handler http.HandlerFunc) {
	t.Parallel()
	f, client := newFake(t)
	require.NoError(t, client.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: "a", Name: "a"}))
	w := catalogtest.Start(t, client, 10*time.Millisecond)
	catalogtest.Await(t, w, func(s *catalog.Snapshot) bool { return s.Instances["a"] != nil })
	f.setOverride(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			handler(rw, r)
		}
		return r.URL.Path == path
	})
	require.Eventually(t, func() bool { return !w.Health().Synced }, 10*time.Second, time.Millisecond)
	before, stands := f.requests.Load(), w.Snapshot()
	assert.Contains(t, stands.Instances, "a")
	assert.Contains(t, w.Health().Err, strings.TrimPrefix(path, "/v1/"))
	assert.Equal(t, stands.ReadAt, w.Health().LastSync)
	time.Sleep(300 * time.Millisecond) // a window to count requests in, not to wait for anything
	assert.LessOrEqual(t, f.requests.Load()-before, int64(8), "hot loop")
	assert.Equal(t, stands, w.Snapshot())
	f.setOverride(nil)
	catalogtest.Await(t, w, func(s *catalog.Snapshot) bool { return s.ReadAt.After(stands.ReadAt) })
	assert.True(t, w.Health().Synced)
	assert.Empty(t, w.Health().Err)
}
