package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// App is a small app with a behaviour that can be switched: HTTP, where every
// path but /behave answers with the status set, or TCP, where a connection is
// accepted, greeted when it has sent a line, and closed. It keeps its port when
// it is closed and opened again. It is safe for concurrent use.
type App struct {
	port int
	tcp  bool

	status atomic.Int64
	hang   atomic.Bool
	delay  atomic.Int64 // nanoseconds
	hits   atomic.Int64

	mu    sync.Mutex
	close func()
}

// StartApp starts an HTTP app in this process, on a free port of 127.0.0.1.
func (l *Lab) StartApp() (*App, error) { return l.startApp(false) }

// StartTCPApp starts a TCP app in this process.
func (l *Lab) StartTCPApp() (*App, error) { return l.startApp(true) }

func (l *Lab) startApp(tcp bool) (*App, error) {
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	a := newApp(port, tcp)
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
	ln, err := net.Listen("tcp", loopback(a.port))
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

// SetHang makes the app take requests and connections, but answer none.
func (a *App) SetHang(hang bool) { a.hang.Store(hang) }

// SetDelay makes an HTTP app take so long for every answer.
func (a *App) SetDelay(d time.Duration) { a.delay.Store(int64(d)) }

// ServeHTTP implements http.Handler. POST /behave?status=500&hang=true is
// SetStatus and SetHang.
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
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, http.StatusText(code))
}

func (a *App) behave(r *http.Request) error {
	q := r.URL.Query()
	if q.Has("status") {
		code, err := strconv.Atoi(q.Get("status"))
		if err != nil || code < 200 || code > 599 {
			return errors.New("status must be 200 to 599")
		}
		a.SetStatus(code)
	}
	if q.Has("hang") {
		hang, err := strconv.ParseBool(q.Get("hang"))
		if err != nil {
			return errors.New("hang must be true or false")
		}
		a.SetHang(hang)
	}
	return nil
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

// appVariable tells a process to be an app, on the port that it names.
const appVariable = "LAB_APP_PORT"

// AppMain turns the process into an app, for good, when it was started by
// StartAppProcess. Programs that call that must begin with it: main, or
// TestMain.
func AppMain() {
	text, ok := os.LookupEnv(appVariable)
	if !ok {
		return
	}
	port, err := strconv.Atoi(text)
	if err == nil {
		err = newApp(port, false).Open()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
	fmt.Println("app: listens on", loopback(port))
	select {}
}

// AppProcess is an HTTP App in a process of its own, which can be killed.
type AppProcess struct {
	*Process
	port int
}

// StartAppProcess starts this very program as an HTTP app on a free port and
// waits until it answers.
func (l *Lab) StartAppProcess(ctx context.Context, name string) (*AppProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting an app: %w", err)
	}
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	a := &AppProcess{port: port}
	env := []string{appVariable + "=" + strconv.Itoa(port)}
	if a.Process, err = l.start(l.uniqueName(name, "app"), self, nil, env); err != nil {
		return nil, err
	}
	return a, a.WaitReady(ctx)
}

// Port is the app's port; it survives restarts.
func (a *AppProcess) Port() int { return a.port }

// Addr is host:port of the app.
func (a *AppProcess) Addr() string { return loopback(a.port) }

// WaitReady waits until the port accepts connections.
func (a *AppProcess) WaitReady(ctx context.Context) error {
	return a.until(ctx, 10*time.Second, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.Addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// SetStatus sets the HTTP status of all answers.
func (a *AppProcess) SetStatus(ctx context.Context, code int) error {
	_, err := httpDo(ctx, http.MethodPost, "http://"+a.Addr()+"/behave?status="+strconv.Itoa(code))
	return err
}
