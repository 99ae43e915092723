package hds

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// errConnections is why a connection is closed as soon as it is there.
var errConnections = errors.New("too many connections are open")

// connections bounds how many are open at all listeners together: those who only
// connect must not take the file descriptors that Consul's answers need.
type connections struct {
	most     int64
	open     atomic.Int64
	refusals *refusals
}

// bounded is a listener that closes what is too much.
type bounded struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := b.connections
		if c.open.Add(1) <= c.most {
			return c.count(conn)
		}
		c.open.Add(-1)
		c.refusals.note(reasonConnections, conn.RemoteAddr().Network()+":"+conn.RemoteAddr().String(), errConnections, time.Now())
		_ = conn.Close() // nobody waits for it
	}
}

// counted is a connection that counts until it is closed. It reads as gRPC reads
// those that it is given as they are.
type counted struct {
	net.Conn
	patient
	open   *atomic.Int64
	closed atomic.Bool
}

// count makes a connection that was let in a counted one, or closes it.
func (c *connections) count(conn net.Conn) (net.Conn, error) {
	made, err := newCounted(conn, &c.open)
	if err != nil {
		c.open.Add(-1)
		_ = conn.Close() // what counts is why nobody can serve it
		return nil, err
	}
	return made, nil
}

func newCounted(conn net.Conn, open *atomic.Int64) (*counted, error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T is no connection of the kernel's", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reaching the descriptor of a connection: %w", err)
	}
	c := &counted{Conn: conn, open: open}
	c.patient.init(raw)
	return c, nil
}

// Close implements net.Conn.
func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// bare is the connection that the network gave.
func bare(c net.Conn) net.Conn {
	if counted, ok := c.(*counted); ok {
		return counted.Conn
	}
	return c
}
