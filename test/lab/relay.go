package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Relay takes connections of the lab's own network at an address, and carries
// them to the same address in a namespace, as the bridge of a Nomad group does
// with its ports. It takes them, and closes them at once, also while nobody
// listens there.
type Relay struct {
	listener net.Listener
	into     *Namespace
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// StartRelay starts a relay at host:port, with an IP address as the host.
func (l *Lab) StartRelay(into *Namespace, address string) (*Relay, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("starting a relay: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{listener: listener, into: into, cancel: cancel}
	r.running.Go(func() { r.run(ctx) })
	l.onClose(r.Close)
	return r, nil
}

// Close closes the listener and all connections. Further calls do nothing.
func (r *Relay) Close() {
	r.cancel()
	_ = r.listener.Close()
	r.running.Wait()
}

func (r *Relay) run(ctx context.Context) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.carry(ctx, conn) })
	}
}

// carry connects both sides until each has said its last, or ctx ends.
func (r *Relay) carry(ctx context.Context, outside net.Conn) {
	defer func() { _ = outside.Close() }()
	inside, err := r.into.DialContext(ctx, "tcp", r.listener.Addr().String())
	if err != nil {
		return
	}
	defer func() { _ = inside.Close() }()
	defer context.AfterFunc(ctx, func() {
		_ = errors.Join(outside.Close(), inside.Close())
	})()
	var both sync.WaitGroup
	both.Go(func() { pour(inside, outside) })
	both.Go(func() { pour(outside, inside) })
	both.Wait()
}

// pour copies all of one connection to another, its end too.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}
