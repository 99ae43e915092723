package hds

import (
	"sync"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const (
	// packAfter is how long a message has to be the same before it is packed: an
	// Envoy of which something flips all the time is not worth the work.
	packAfter = 10 * time.Second
	// maxPacked bounds what is packed. It keeps what a difference costs after a quiet
	// time, unpacking, below a tenth of a millisecond or so; 119 endpoints are as
	// long. The few Envoys that probe more keep their report as it is.
	maxPacked = 16 << 10
)

// frame receives one message of a stream undecoded. In the steady state an
// Envoy's reports are byte for byte equal (facts/envoy-hds.md 0.21): comparing
// the segments with the last message costs next to nothing, decoding does not.
// A frame is reused for every message of one stream.
type frame struct {
	// last is the newest message, nil while that is packed. It is never written to:
	// the next different one takes its place.
	last []byte
	// packed is the newest message, if it has been the same for packAfter; since is
	// when it came first, zero if it was not yet looked at.
	packed packed
	since  time.Time
	// before is the message whose place last took, until the two were compared.
	before []byte
	// equal says that the newest message is byte for byte the one before it.
	equal bool
	// any says that there was a message at all: an empty one is a message too.
	any bool
	// packer packs and unpacks; nil does not pack.
	packer *packer
	// mu is held while last and packed are replaced, and while another goroutine than
	// the stream's reader looks for them.
	mu sync.Mutex
}

// clear lets go of all messages: the next one counts as different.
func (f *frame) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.last, f.packed, f.any, f.equal = nil, nil, packed{}, false, false
}

// newest is the newest message, for any goroutine; it is not to be written to.
func (f *frame) newest() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole()
}

// whole is the newest message, as it came.
func (f *frame) whole() []byte {
	if f.packed.bytes == nil {
		return f.last
	}
	return f.packer.unpack(f.packed)
}

// size is the length of the newest message.
func (f *frame) size() int { return len(f.last) + f.packed.size }

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
	f.before, f.last, f.packed, f.since = f.whole(), message, packed{}, time.Time{}
	f.any, f.equal = true, false
}

func (f *frame) same(data mem.BufferSlice) bool {
	if f.packed.bytes != nil {
		return f.packer.same(f.packed, data)
	}
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

// rest packs the newest message once it has been the same for long enough. The
// reader calls it for each one. asked gives the probes that the Envoy was asked for.
func (f *frame) rest(now time.Time, asked func() []*probe.Probe) {
	switch {
	case f.packer == nil || len(f.last) == 0 || len(f.last) > maxPacked:
	case f.since.IsZero():
		f.since = now
	case now.Sub(f.since) >= packAfter:
		p := f.packer.pack(f.last, asked())
		f.mu.Lock()
		defer f.mu.Unlock()
		f.last, f.packed = nil, p
	}
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
