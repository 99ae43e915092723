package lab

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Proxy stands between a client and a Consul agent, and counts requests. It is
// safe for concurrent use.
type Proxy struct {
	port   int
	server *http.Server
	done   chan struct{}

	mu    sync.Mutex
	count map[string]int
	write func(http.ResponseWriter) (answered bool)
}

// StartProxy starts a proxy of an agent in this process, on a free port of
// 127.0.0.1.
func (l *Lab) StartProxy(agent *Consul) (*Proxy, error) {
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	ln, err := Listen("tcp", loopback(port))
	if err != nil {
		return nil, fmt.Errorf("starting a proxy of %s: %w", agent.Name(), err)
	}
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: agent.HTTPAddr()})
	pass.ErrorLog = log.New(io.Discard, "", 0) // the client is answered 502
	p := &Proxy{port: port, done: make(chan struct{}), count: map[string]int{}}
	p.server = &http.Server{Handler: p.counting(pass), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(ln)
	}()
	l.onClose(p.Close)
	return p, nil
}

func (p *Proxy) counting(pass http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.count[r.Method+" "+r.URL.Path]++
		write := p.write
		p.mu.Unlock()
		if write != nil && r.Method != http.MethodGet && write(w) {
			return
		}
		pass.ServeHTTP(w, r)
	}
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return loopback(p.port) }

// Close closes the listener and all connections. Further calls do nothing.
func (p *Proxy) Close() {
	_ = p.server.Close()
	<-p.done
}

// OnWrite sets what becomes of writes: f may answer one instead of the agent,
// and then says so, or delay it. Nil passes them on.
func (p *Proxy) OnWrite(f func(http.ResponseWriter) (answered bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write = f
}

// Reset forgets what has been counted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.count)
}

// Writes are the requests that are no reads, as "PUT /v1/agent/…", with how
// often they came.
func (p *Proxy) Writes() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := maps.Clone(p.count)
	maps.DeleteFunc(out, func(k string, _ int) bool { return strings.HasPrefix(k, "GET ") })
	return out
}
