package hds

import (
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
	// last is the newest message. It is never written to: the next different one
	// takes its place.
	last []byte
	// before is the message whose place last took, until the two were compared.
	before []byte
	// equal says that the newest message is byte for byte the one before it.
	equal bool
	// any says that there was a message at all: an empty one is a message too.
	any bool
	// mu is held while last is replaced, and while another goroutine than the
	// stream's reader looks for it.
	mu sync.Mutex
}

// clear lets go of all messages: the next one counts as different.
func (f *frame) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.last, f.any, f.equal = nil, nil, false, false
}

// newest is the newest message, for any goroutine; it is not to be written to.
func (f *frame) newest() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// forget lets go of the message before the newest: a stream keeps one report.
func (f *frame) forget() { f.before = nil }

// take makes the message of these segments the frame's newest.
func (f *frame) take(data mem.BufferSlice) {
	if f.any && f.same(data) {
		f.equal = true
		return
	}
	message := data.Materialize()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.any, f.equal = true, false
	f.before, f.last = f.last, message
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
