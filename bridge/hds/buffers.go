package hds

import (
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	// frameBuffer is the size of the frames of HTTP/2 that gRPC lets be sent, and
	// smallBuffer that of which clearing costs next to nothing.
	frameBuffer = 16 << 10
	smallBuffer = 4 << 10
)

// buffers are what reports are received into. gRPC's own pool clears each buffer as
// a whole before a frame is read over it, which is a tenth of what receiving a
// report costs; these are handed out as they came back. All else is gRPC's.
type buffers struct {
	mem.BufferPool
	frames sync.Pool
}

func newBuffers() *buffers {
	b := &buffers{BufferPool: mem.DefaultBufferPool()}
	b.frames.New = func() any {
		buf := make([]byte, frameBuffer)
		return &buf
	}
	return b
}

// Get implements mem.BufferPool. What is in the buffer is of an older message.
func (b *buffers) Get(length int) *[]byte {
	if length <= smallBuffer || length > frameBuffer {
		return b.BufferPool.Get(length)
	}
	buf := b.frames.Get().(*[]byte)
	*buf = (*buf)[:length]
	return buf
}

// Put implements mem.BufferPool.
func (b *buffers) Put(buf *[]byte) {
	if cap(*buf) != frameBuffer {
		b.BufferPool.Put(buf)
		return
	}
	*buf = (*buf)[:frameBuffer]
	b.frames.Put(buf)
}
