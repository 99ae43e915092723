package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// bed is a real agent with many instances, the daemon, and what the daemon says to
// the agent.
type bed struct {
	consul *lab.Consul
	daemon *lab.Daemon
	wire   *wire
	// bare is a client that reaches the agent as the daemon does.
	bare *api.Client
}

// population is what is registered on the agent of a bed, and the daemon's config
// for it, given the agent's address.
type population struct {
	register func(*bed) error
	config   func(address string) string
}

// shared are n instances that all Envoys are to observe.
func shared(n int) population {
	return population{
		register: func(t *bed) error { return t.register(n) },
		config: func(address string) string {
			return fmt.Sprintf("log_level = \"info\"\nhds {\n  node_ids = [\"load-*\"]\n}\nconsul {\n  address = %q\n}\n", address)
		},
	}
}

// grouped are instances with perEnvoy checks each, for the sidecar of each.
func grouped(groups int) population {
	return population{
		register: func(t *bed) error { return registerGroups(t.consul.Client(), groups) },
		config:   func(address string) string { return growthConfig(address, perEnvoy) },
	}
}

// newBed starts an agent with a population, and the daemon. What the daemon writes
// is watched if watched, at the price of a proxy.
func (b *bench) newBed(ctx context.Context, p population, watched bool) (*bed, error) {
	var err error
	t := &bed{}
	if t.consul, err = b.lab.StartConsul(ctx, lab.ConsulOptions{}); err != nil {
		return nil, err
	}
	address := t.consul.HTTPAddr()
	if t.wire, err = newWire(address); err != nil {
		return nil, err
	}
	if watched {
		address = t.wire.address
	}
	if t.bare, err = api.NewClient(&api.Config{Scheme: "http", Address: address, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}); err != nil {
		return nil, err
	}
	if err := p.register(t); err != nil {
		return nil, err
	}
	if t.daemon, err = b.lab.StartDaemon(ctx, lab.DaemonOptions{Consul: t.consul, Config: p.config(address)}); err != nil {
		return nil, err
	}
	return t, t.daemon.WaitReady(ctx)
}

func (t *bed) register(n int) error {
	for i := range n {
		if err := t.registerOne(fmt.Sprintf("steady-%05d", i), 10000+i); err != nil {
			return err
		}
	}
	return nil
}

func (t *bed) registerOne(id string, port int) error {
	return t.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: id, Address: "127.0.0.1", Port: port, Meta: map[string]string{"hds": "http"},
	})
}

// close ends all of it.
func (t *bed) close() {
	_ = t.daemon.Kill()
	t.wire.close()
	_ = t.consul.Kill()
}

// steady connects an Envoy that reports all n endpoints healthy, and waits until
// their checks pass.
func (t *bed) steady(ctx context.Context, n int) (*envoy, error) {
	e, err := reporting(ctx, t.daemon, "load-0", n)
	if err != nil {
		return nil, err
	}
	if err := t.consul.WaitPassing(ctx, n, patience); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// wire stands between clients and an agent, and tells when an update of a check
// was answered.
type wire struct {
	address string
	server  *http.Server
	pass    *httputil.ReverseProxy

	mu sync.Mutex
	// awaited are the updates that somebody waits for, by check id.
	awaited map[string]chan time.Time
	// last is what the agent was told last of each check, and when.
	last map[string]update
	// turns counts the updates that changed a status since they were taken, early
	// those that came sooner than any refresh is due.
	turns, early int
}

// update is one of a check.
type update struct {
	status string
	at     time.Time
}

func newWire(agent string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{
		address: l.Addr().String(), pass: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: agent}),
		awaited: map[string]chan time.Time{}, last: map[string]update{},
	}
	w.pass.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	w.pass.ErrorLog = log.New(io.Discard, "", 0) // of clients that have gone
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: patience}
	go func() { _ = w.server.Serve(l) }() // until close
	return w, nil
}

func (w *wire) close() { _ = w.server.Close() }

// ServeHTTP implements http.Handler.
func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	id, isUpdate := strings.CutPrefix(r.URL.Path, "/v1/agent/check/update/")
	if !isUpdate {
		w.pass.ServeHTTP(out, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.pass.ServeHTTP(out, r)
	w.answered(id, body, time.Now())
}

func (w *wire) answered(id string, body []byte, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(id, body, at)
	if c := w.awaited[id]; c != nil {
		delete(w.awaited, id)
		c <- at
	}
}

// await tells when the next update of a check was answered.
func (w *wire) await(id string) <-chan time.Time {
	c := make(chan time.Time, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited[id] = c
	return c
}

// note counts an update that is no refresh in its time.
func (w *wire) note(id string, body []byte, at time.Time) {
	now := update{at: at}
	for _, status := range []string{api.HealthPassing, api.HealthWarning, api.HealthCritical} {
		if bytes.Contains(body, []byte(`"Status":"`+status+`"`)) {
			now.status = status
		}
	}
	last, known := w.last[id]
	w.last[id] = now
	switch {
	case known && last.status != now.status:
		w.turns++
	case known && at.Sub(last.at) < soonest():
		w.early++
	}
}

// taken are the updates since the last call that changed a status, or that came too
// early for a refresh.
func (w *wire) taken() (turns, early int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	turns, early = w.turns, w.early
	w.turns, w.early = 0, 0
	return turns, early
}
