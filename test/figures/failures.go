package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/consul-hds/consul-hds/test/lab"
)

// failure is a way to fail, for a kind of probe.
type failure struct {
	name, kind string
	start      func(*lab.Lab) (app, error)
	// hangs is a failure of which each probe takes its whole timeout.
	hangs bool
	// content is an answer that is bad by its content alone: Envoy tells it at
	// once, and the daemon waits for as long as further probes may take.
	content bool
}

// app is a running app that can be made to fail, and to recover.
type app struct {
	port              int
	fail, mend, close func()
}

func failures() []failure {
	set := func(change func(*lab.App, bool)) func(*lab.Lab) (app, error) {
		return func(l *lab.Lab) (app, error) { return ofLab(l.StartApp, change) }
	}
	refuse := func(a *lab.App, on bool) {
		if on {
			a.Close()
		} else {
			_ = a.Open() // if it fails, the figures never end well
		}
	}
	status := func(a *lab.App, on bool) { a.SetStatus(map[bool]int{true: 500, false: 200}[on]) }
	return []failure{
		{name: "http 500", kind: "http", start: set(status)},
		{name: "http refused", kind: "http", start: set(refuse)},
		{name: "http hang", kind: "http", start: set((*lab.App).SetHang), hangs: true},
		{name: "http reset", kind: "http", start: startResetting},
		{name: "tcp refused", kind: "tcp", start: func(l *lab.Lab) (app, error) { return ofLab(l.StartTCPApp, refuse) }},
		{name: "grpc NOT_SERVING", kind: "grpc", start: startGRPC, content: true},
	}
}

// ofLab is an app of the lab's that fails by a change.
func ofLab(start func() (*lab.App, error), change func(*lab.App, bool)) (app, error) {
	a, err := start()
	if err != nil {
		return app{}, err
	}
	return app{port: a.Port(), fail: func() { change(a, true) }, mend: func() { change(a, false) }, close: a.Close}, nil
}

func listen(l *lab.Lab) (net.Listener, error) {
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	return lab.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// startResetting starts an HTTP app that resets every connection while it
// fails.
func startResetting(l *lab.Lab) (app, error) {
	ln, err := listen(l)
	if err != nil {
		return app{}, err
	}
	var failing atomic.Bool
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !failing.Load() {
			return
		}
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	})}
	go func() { _ = s.Serve(ln) }()
	return app{portOf(ln), func() { failing.Store(true) }, func() { failing.Store(false) }, func() { _ = s.Close() }}, nil
}

// startGRPC starts a server with the standard health service.
func startGRPC(l *lab.Lab) (app, error) {
	ln, err := listen(l)
	if err != nil {
		return app{}, err
	}
	g, h := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(g, h)
	go func() { _ = g.Serve(ln) }()
	set := func(s healthpb.HealthCheckResponse_ServingStatus) func() { return func() { h.SetServingStatus("", s) } }
	return app{portOf(ln), set(healthpb.HealthCheckResponse_NOT_SERVING), set(healthpb.HealthCheckResponse_SERVING), g.Stop}, nil
}
