package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// countingProxy stands between the daemon and its agent, and counts requests.
type countingProxy struct {
	addr string

	mu    sync.Mutex
	count map[string]int
	// write, if set, may answer a write instead of the agent, or delay it.
	write func(http.ResponseWriter) (answered bool)
}

func newCountingProxy(t *testing.T, agent string) *countingProxy {
	t.Helper()
	target, err := url.Parse("http://" + agent)
	require.NoError(t, err)
	p := &countingProxy{count: map[string]int{}}
	pass := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.count[r.Method+" "+r.URL.Path]++
		write := p.write
		p.mu.Unlock()
		if write != nil && r.Method != http.MethodGet && write(w) {
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.addr = server.Listener.Addr().String()
	return p
}

// onWrite sets what becomes of writes; nil passes them on.
func (p *countingProxy) onWrite(f func(http.ResponseWriter) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write = f
}

func (p *countingProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.count)
}

// writes are the requests that are no reads, with how often they came.
func (p *countingProxy) writes() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := maps.Clone(p.count)
	maps.DeleteFunc(out, func(k string, _ int) bool { return strings.HasPrefix(k, "GET ") })
	return out
}
