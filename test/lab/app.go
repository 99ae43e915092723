package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// App is a small app with a behaviour that can be switched: HTTP, where every
// path but /behave answers with the status set, and /health with one of its own
// if that is set, or TCP, where a connection is
// accepted, greeted when it has sent a line, and closed. It keeps its port when
// it is closed and opened again. It is safe for concurrent use.
type App struct {
	name string
	port int
	tcp  bool

	status atomic.Int64
	health atomic.Int64 // 0 is none
	hang   atomic.Bool
	delay  atomic.Int64 // nanoseconds
	hits   atomic.Int64

	mu    sync.Mutex
	close func()
}

// StartApp starts an HTTP app in this process, on a free port of 127.0.0.1.
func (l *Lab) StartApp() (*App, error) { return l.startApp("", false) }

// StartNamedApp starts an HTTP app in this process that calls itself by a name:
// see ServedBy.
func (l *Lab) StartNamedApp(name string) (*App, error) { return l.startApp(name, false) }

// StartTCPApp starts a TCP app in this process.
func (l *Lab) StartTCPApp() (*App, error) { return l.startApp("", true) }

func (l *Lab) startApp(name string, tcp bool) (*App, error) {
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	a := newApp(port, tcp)
	a.name = name
	if err := a.Open(); err != nil {
		return nil, err
	}
	l.onClose(a.Close)
	return a, nil
}

func newApp(port int, tcp bool) *App {
	a := &App{port: port, tcp: tcp}
	a.status.Store(http.StatusOK)
	return a
}

// Open listens again after Close.
func (a *App) Open() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.close != nil {
		return fmt.Errorf("opening the app on port %d: it is open", a.port)
	}
	ln, err := Listen("tcp", loopback(a.port))
	if err != nil {
		return fmt.Errorf("opening the app: %w", err)
	}
	if a.tcp {
		a.close = a.serveTCP(ln)
		return nil
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	a.close = func() {
		_ = server.Close()
		<-done
	}
	return nil
}

// Close closes the listener and all connections: the port refuses.
func (a *App) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.close != nil {
		a.close()
		a.close = nil
	}
}

// Port is the app's port.
func (a *App) Port() int { return a.port }

// Addr is host:port of the app.
func (a *App) Addr() string { return loopback(a.port) }

// Hits is the number of requests or connections so far, /behave excepted.
func (a *App) Hits() int64 { return a.hits.Load() }

// SetStatus sets the HTTP status of all answers.
func (a *App) SetStatus(code int) { a.status.Store(int64(code)) }

// SetHealth sets the HTTP status of /health, where the app tells of itself while
// it serves all else as before; 0 is what SetStatus says.
func (a *App) SetHealth(code int) { a.health.Store(int64(code)) }

// SetHang makes the app take requests and connections, but answer none.
func (a *App) SetHang(hang bool) { a.hang.Store(hang) }

// SetDelay makes an HTTP app take so long for every answer.
func (a *App) SetDelay(d time.Duration) { a.delay.Store(int64(d)) }

// ServedBy is the header of an HTTP answer that names the app.
const ServedBy = "Served-By"

// ServeHTTP implements http.Handler. POST
// /behave?status=500&health=503&hang=true&delay=10ms is SetStatus, SetHealth,
// SetHang and SetDelay.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/behave" && r.Method == http.MethodPost {
		if err := a.behave(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return
	}
	a.hits.Add(1)
	for a.hang.Load() {
		if !pause(r.Context()) {
			return
		}
	}
	time.Sleep(time.Duration(a.delay.Load()))
	code := int(a.status.Load())
	if health := int(a.health.Load()); r.URL.Path == "/health" && health != 0 {
		code = health
	}
	w.Header().Set(ServedBy, a.name)
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, http.StatusText(code))
}

// behave sets what the query names.
func (a *App) behave(r *http.Request) error {
	for what, to := range r.URL.Query() {
		if err := a.set(what, to[0]); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

func (a *App) set(what, to string) error {
	switch what {
	case "status":
		return apply(to, parseStatus, a.SetStatus)
	case "health":
		return apply(to, parseStatus, a.SetHealth)
	case "hang":
		return apply(to, strconv.ParseBool, a.SetHang)
	case "delay":
		return apply(to, time.ParseDuration, a.SetDelay)
	}
	return errors.New("no such behaviour")
}

// apply sets what a text says.
func apply[T any](text string, parse func(string) (T, error), set func(T)) error {
	value, err := parse(text)
	if err == nil {
		set(value)
	}
	return err
}

func parseStatus(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 200 || code > 599 {
		return 0, errors.New("it must be 200 to 599")
	}
	return code, nil
}

// serveTCP serves until the returned function, which closes all, is called.
func (a *App) serveTCP(ln net.Listener) (closeAll func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			a.hits.Add(1)
			wg.Go(func() { a.greet(ctx, conn) })
		}
	})
	return func() {
		cancel()
		_ = ln.Close()
		wg.Wait()
	}
}

func (a *App) greet(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	line, err := bufio.NewReader(conn).ReadString('\n')
	for a.hang.Load() {
		if !pause(ctx) {
			return
		}
	}
	if err == nil {
		_, _ = fmt.Fprintf(conn, "hello %s", line)
	}
}

// pause waits a moment and says whether ctx is still alive.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollEvery):
		return true
	}
}
