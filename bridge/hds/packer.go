package hds

import (
	"bytes"
	"compress/flate"
	"fmt"
	"hash/maphash"
	"io"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// packed is a message that takes less room, and can still be compared with
// others.
type packed struct {
	bytes []byte
	// size is how long the message is, and sum its hash.
	size int
	sum  uint64
	// asked are the probes by the report of which it was packed.
	asked []*probe.Probe
}

// mostWords is of how many probes words are made: an echo has some 100 bytes, and
// flate goes no further back than 32 kB.
const mostWords = 400

// words are what a message is likely to hold, that need not be kept along with it:
// the report of an Envoy that was asked for these probes, if all is well.
func words(asked []*probe.Probe) (out []byte) {
	for _, p := range asked[max(0, len(asked)-mostWords):] {
		out = appendEcho(out, p)
	}
	return out
}

// packer packs messages. Others are compared with them by their length and a hash
// with a key that nobody knows: two that differ are taken for the same once in 2^64
// times, which is less than what memory and network get wrong. Its methods may be
// called from any goroutine.
type packer struct {
	seed maphash.Seed
	// writers and readers are large, and needed seldom.
	writers, readers sync.Pool
}

func newPacker() *packer {
	p := &packer{seed: maphash.MakeSeed()}
	p.writers.New = func() any {
		w, err := flate.NewWriter(nil, flate.BestCompression)
		if err != nil {
			panic(fmt.Sprintf("the level is one of flate's own, yet: %v", err))
		}
		return w
	}
	p.readers.New = func() any { return flate.NewReader(nil) }
	return p
}

// pack packs a message of an Envoy that was asked for probes, which are never written
// to.
func (p *packer) pack(b []byte, asked []*probe.Probe) packed {
	w := p.writers.Get().(*flate.Writer)
	defer p.writers.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, err := w.Write(words(asked))
	if err == nil {
		err = w.Flush() // what comes next begins a byte of its own
	}
	known := out.Len()
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("a buffer takes all that is written, yet: %v", err))
	}
	return packed{bytes: bytes.Clone(out.Bytes()[known:]), size: len(b), sum: maphash.Bytes(p.seed, b), asked: asked}
}

// unpack is the message that was packed.
func (p *packer) unpack(m packed) []byte {
	r := p.readers.Get().(io.Reader)
	defer p.readers.Put(r)
	out := make([]byte, m.size)
	err := r.(flate.Resetter).Reset(bytes.NewReader(m.bytes), words(m.asked))
	if err == nil {
		_, err = io.ReadFull(r, out)
	}
	if err != nil {
		panic(fmt.Sprintf("what was packed can be unpacked, yet: %v", err))
	}
	return out
}

// same says whether a message is the one that was packed.
func (p *packer) same(m packed, data mem.BufferSlice) bool {
	if data.Len() != m.size {
		return false
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	for _, seg := range data {
		_, _ = h.Write(seg.ReadOnlyData()) // it never fails
	}
	return h.Sum64() == m.sum
}
