package hds

import (
	"slices"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame receives one message of a stream undecoded. In the steady state an
// Envoy's reports are byte for byte equal (facts/envoy-hds.md 0.21): comparing
// the segments with the last message costs next to nothing, decoding does not.
// A frame is reused for every message of one stream.
type frame struct {
	// last is the newest message; it is written over by the next different one.
	last []byte
	// equal says that the newest message is byte for byte the one before it.
	equal bool
	// any says that there was a message at all: an empty one is a message too.
	any bool
	// mu is held while last is written to, and while another goroutine than the
	// stream's reader looks at it.
	mu sync.Mutex
}

// forget lets go of the newest message: the next one counts as different.
func (f *frame) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.any, f.equal = nil, false, false
}

// copied is a copy of the newest message, for any goroutine.
func (f *frame) copied() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.last)
}

// take makes the message of these segments the frame's newest.
func (f *frame) take(data mem.BufferSlice) {
	if f.any && f.same(data) {
		f.equal = true
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.any, f.equal = true, false
	f.last = f.last[:0]
	for _, seg := range data {
		f.last = append(f.last, seg.ReadOnlyData()...)
	}
}

func (f *frame) same(data mem.BufferSlice) bool {
	rest := f.last
	for _, seg := range data {
		b := seg.ReadOnlyData()
		if len(b) > len(rest) || string(b) != string(rest[:len(b)]) {
			return false
		}
		rest = rest[len(b):]
	}
	return len(rest) == 0
}

// codec hands frames over undecoded and leaves everything else to the proto
// codec.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.take(data)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
