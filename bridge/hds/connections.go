package hds

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
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
			return &counted{Conn: conn, done: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
		}
		c.open.Add(-1)
		c.refusals.note(reasonConnections, conn.RemoteAddr().Network()+":"+conn.RemoteAddr().String(), errConnections, time.Now())
		_ = conn.Close() // nobody waits for it
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}

// bare is the connection that the network gave.
func bare(c net.Conn) net.Conn {
	if counted, ok := c.(*counted); ok {
		return counted.Conn
	}
	return c
}
