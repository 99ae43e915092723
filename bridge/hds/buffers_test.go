package hds

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABufferIsAsLongAsWanted(t *testing.T) {
	b := newBuffers()
	for _, n := range []int{0, 1, smallBuffer, smallBuffer + 1, frameBuffer - 1, frameBuffer, frameBuffer + 1, 1 << 20} {
		for range 2 {
			buf := b.Get(n)
			assert.Len(t, *buf, n)
			*buf = (*buf)[:n/2] // gRPC gives back a prefix
			b.Put(buf)
		}
	}
}

func TestABufferCostsNoAllocation(t *testing.T) {
	b := newBuffers()
	assert.Less(t, testing.AllocsPerRun(1000, func() { b.Put(b.Get(frameBuffer)) }), 0.1)
}
