package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// The pauses before an address that does not exist is tried again.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// The limits of a connection. The one on writes leaves room for a profile of a
// minute.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 2 * time.Minute
	idleTimeout     = time.Minute
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = time.Second
)

// listener is one address and what is served there.
type listener struct {
	name, addr string
	handler    http.Handler
	log        hclog.Logger
	listen     func(ctx context.Context, network, addr string) (net.Listener, error)

	mu   sync.Mutex
	open net.Addr
	err  error
}

func newListener(name, addr string, handler http.Handler, log hclog.Logger) *listener {
	var config net.ListenConfig
	return &listener{
		name: name, addr: addr, handler: handler, log: log, listen: config.Listen,
		err: errors.New("not started"),
	}
}

func (l *listener) run(ctx context.Context) error {
	socket, err := l.await(ctx)
	if err != nil || socket == nil {
		return err
	}
	l.set(socket.Addr(), nil)
	defer l.set(nil, errors.New("closed"))
	l.log.Info("listening", "listener", l.name, "address", socket.Addr().String())
	return l.serve(ctx, socket)
}

// await opens the socket; it returns nil if ctx ends before. An address that the
// host does not have yet (a bridge, a VIP) may come.
func (l *listener) await(ctx context.Context) (net.Listener, error) {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		socket, err := l.listen(ctx, "tcp", l.addr)
		if err == nil {
			return socket, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		l.set(nil, err)
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, fmt.Errorf("opening the %s listener: %w", l.name, err)
		}
		if pause == firstRetry {
			l.log.Warn("the address does not exist yet, trying again", "listener", l.name, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(pause):
		}
	}
}

func (l *listener) serve(ctx context.Context, socket net.Listener) error {
	server := &http.Server{
		Handler:           l.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          l.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(socket) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the %s listener: %w", l.name, err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close() // whoever is still there has had a second
	}
	<-served
	return nil
}

func (l *listener) set(open net.Addr, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.err = open, err
}

func (l *listener) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return fmt.Errorf("%s listener: %w", l.name, l.err)
	}
	return nil
}

func (l *listener) address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return ""
	}
	return l.open.String()
}
