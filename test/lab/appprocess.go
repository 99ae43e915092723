package lab

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

// These tell a process to be an app, on which port, and how it is called.
const (
	appPortVariable = "LAB_APP_PORT"
	appNameVariable = "LAB_APP_NAME"
)

// AppMain turns the process into an app, for good, when it was started by
// StartAppProcess. Programs that call that must begin with it: main, or
// TestMain.
func AppMain() {
	text, ok := os.LookupEnv(appPortVariable)
	if !ok {
		return
	}
	port, err := strconv.Atoi(text)
	if err == nil {
		app := newApp(port, false)
		app.name = os.Getenv(appNameVariable)
		err = app.Open()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
	fmt.Println("app: listens on", loopback(port))
	select {}
}

// AppProcess is an HTTP App in a process of its own, which can be killed. It
// calls itself by the name that it was started with.
type AppProcess struct {
	*Process
	port int
}

// StartAppProcess starts this very program as an HTTP app on a free port and
// waits until it answers.
func (l *Lab) StartAppProcess(ctx context.Context, name string) (*AppProcess, error) {
	return l.StartAppProcessIn(ctx, nil, name)
}

// StartAppProcessIn is StartAppProcess in a network namespace, where the port is
// on its own 127.0.0.1. The methods of the process reach it there.
func (l *Lab) StartAppProcessIn(ctx context.Context, ns *Namespace, name string) (*AppProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting an app: %w", err)
	}
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	a := &AppProcess{port: port}
	env := []string{appPortVariable + "=" + strconv.Itoa(port), appNameVariable + "=" + name}
	if a.Process, err = l.startIn(ns, l.uniqueName(name, "app"), self, nil, env); err != nil {
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
		conn, err := a.ns.DialContext(ctx, "tcp", a.Addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// SetStatus sets the HTTP status of all answers.
func (a *AppProcess) SetStatus(ctx context.Context, code int) error {
	return a.Behave(ctx, "status="+strconv.Itoa(code))
}

// SetHealth sets the HTTP status of /health alone.
func (a *AppProcess) SetHealth(ctx context.Context, code int) error {
	return a.Behave(ctx, "health="+strconv.Itoa(code))
}

// Behave sets what a query of /behave says: see App.ServeHTTP.
func (a *AppProcess) Behave(ctx context.Context, query string) error {
	_, err := httpDoIn(ctx, a.ns, http.MethodPost, "http://"+a.Addr()+"/behave?"+query)
	return err
}

// StartSelf starts this very program once more, with env, as NAME=value, laid
// over the environment; main, or TestMain, has to see by it what to be.
func (l *Lab) StartSelf(name string, env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return l.start(l.uniqueName(name, "self"), self, nil, env)
}
