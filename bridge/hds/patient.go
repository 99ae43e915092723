package hds

import (
	"errors"
	"io"
	"syscall"

	"google.golang.org/grpc/mem"
)

// patient reads from a connection, and takes a buffer only when there is something
// to read. gRPC looks for its one method, and does the same by itself for a
// connection that is not wrapped; for any other it would hold a buffer of 32 kB as
// long as the connection is open. It is for one goroutine.
type patient struct {
	raw syscall.RawConn
	// try is readOnce; a method value would be allocated for each read.
	try func(fd uintptr) bool
	// size and pool are what readOnce reads into; buf, n and err what came of it.
	size int
	pool mem.BufferPool
	buf  *[]byte
	n    int
	err  error
}

func (p *patient) init(raw syscall.RawConn) { p.raw, p.try = raw, p.readOnce }

// readOnce reads what there is. It is false if there is nothing yet. A buffer in
// which there is nothing goes back at once.
func (p *patient) readOnce(fd uintptr) bool {
	p.buf = p.pool.Get(p.size)
	p.n, p.err = syscall.Read(int(fd), *p.buf)
	for errors.Is(p.err, syscall.EINTR) {
		p.n, p.err = syscall.Read(int(fd), *p.buf)
	}
	if p.err == nil && p.n > 0 {
		return true
	}
	p.pool.Put(p.buf)
	p.buf = nil
	return !errors.Is(p.err, syscall.EAGAIN)
}

// ReadOnReady waits for data, and reads up to size bytes of it into a buffer of
// the pool, which becomes the caller's. At the end of the connection it returns
// io.EOF.
func (p *patient) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	p.size, p.pool, p.buf, p.n, p.err = size, pool, nil, 0, nil
	failed := p.raw.Read(p.try)
	buf, n, err := p.buf, p.n, p.err
	p.pool, p.buf = nil, nil
	switch {
	case buf != nil: // RawConn fails only before or after readOnce was called in vain
		return buf, n, nil
	case failed != nil:
		return nil, 0, failed
	case err != nil:
		return nil, 0, err
	}
	return nil, 0, io.EOF
}
