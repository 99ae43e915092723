package hds

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// nothing was asked for.
func nothing() []*probe.Probe { return nil }

// rested is a frame that has had a message for so long, and heard it again each
// second.
func rested(message []byte, quiet time.Duration) *frame {
	f := &frame{packer: newPacker()}
	for at := time.Duration(0); at <= quiet; at += time.Second {
		f.take(wireOf(message))
		f.rest(t0.Add(at), nothing)
	}
	return f
}

func TestWhatStaysTheSameIsPacked(t *testing.T) {
	first, err := hdstest.Report(hdstest.Endpoints(50))
	require.NoError(t, err)
	other := slices.Clone(first)
	other[len(other)-1]++
	f := rested(first, packAfter)
	require.NotNil(t, f.packed.bytes)
	assert.Nil(t, f.last)
	assert.Less(t, len(f.packed.bytes), len(first)/5)
	assert.Equal(t, len(first), f.size())
	assert.Equal(t, first, f.newest())

	f.take(wireOf(first))
	assert.True(t, f.equal)
	f.take(wireOf(first[:len(first)-1]))
	assert.False(t, f.equal, "it is shorter")

	f = rested(first, packAfter)
	f.take(wireOf(other))
	assert.False(t, f.equal, "as long, but another one")
	assert.Equal(t, first, f.before)
	assert.Equal(t, other, f.last)
	assert.Equal(t, other, f.newest())
	assert.Nil(t, f.packed.bytes)
}

func TestWhatIsNotPacked(t *testing.T) {
	short := []byte("some message")
	assert.Nil(t, rested(short, packAfter-time.Second).packed.bytes, "it may change still")
	assert.NotNil(t, rested(bytes.Repeat([]byte{'a'}, maxPacked), packAfter).packed.bytes)
	assert.Nil(t, rested(bytes.Repeat([]byte{'a'}, maxPacked+1), packAfter).packed.bytes, "it takes too long to unpack")
	assert.Nil(t, rested(nil, packAfter).packed.bytes)
	f := &frame{packer: newPacker()}
	for at := time.Duration(0); at <= 3*packAfter; at += packAfter / 2 { // flips all the time
		f.take(wireOf(append(short, byte(at/packAfter))))
		f.rest(t0.Add(at), nothing)
		assert.Nil(t, f.packed.bytes, at)
	}
	f = rested(short, packAfter)
	f.clear()
	assert.Empty(t, f.newest())
	assert.Zero(t, f.size())
	f.take(wireOf(short))
	assert.False(t, f.equal, "nothing is left to compare with")
}

// TestTheNewestMayBeLookedAtAtAnyTime: people look while the reader takes, packs and
// clears; what they see was a message, as a whole.
func TestTheNewestMayBeLookedAtAtAnyTime(t *testing.T) {
	messages := [][]byte{bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("b"), 2000)}
	f := &frame{packer: newPacker()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 300 {
			for at := time.Duration(0); at <= packAfter; at += packAfter {
				f.take(wireOf(messages[n%2]))
				f.rest(t0.Add(at), nothing)
			}
			if n%3 == 0 {
				f.clear()
			}
		}
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		if seen := f.newest(); len(seen) > 0 {
			require.Contains(t, messages, seen)
		}
	}
}

func TestAPackedReportCostsNoAllocation(t *testing.T) {
	r := newReporting(t, 100)
	pack(t, r)
	wire := wireOf(r.reports[0])
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		r.take(t, wire)
		r.frame.rest(t0, r.session.probes)
	}))
	require.NotNil(t, r.frame.packed.bytes)
	assert.Equal(t, []string{"hds:steady-00050"}, r.take(t, wireOf(r.reports[1])), "and what differs is found")
}

// pack makes the frame pack its report.
func pack(t *testing.T, r *reporting) {
	t.Helper()
	r.frame.packer = newPacker()
	r.frame.rest(t0, r.session.probes)
	r.frame.rest(t0.Add(packAfter), r.session.probes)
	require.NotNil(t, r.frame.packed.bytes)
}

// TestWhatAStreamKeepsCostsLittle holds the memory of a steady stream down, beside
// what gRPC needs for it.
func TestWhatAStreamKeepsCostsLittle(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(endpoint{}), uintptr(8))
	const streams = 200
	all := make([]*reporting, streams)
	plan, report := planOfMany(50), newReporting(t, 50).reports[0]
	before := heap()
	for i := range all {
		all[i] = &reporting{session: newSession(uint64(i), newIdentity(newNode("n1")), "peer", nil)}
		all[i].session.commit(plan, t0)
		all[i].take(t, wireOf(report))
		pack(t, all[i])
		all[i].frame.packer = nil // of the server, not of the stream
	}
	each := (heap() - before) / streams
	assert.Less(t, each, uint64(1450), "bytes of session and report; 8 an endpoint, and 12 of the report")
	assert.Greater(t, each, uint64(900), "it was measured")
	runtime.KeepAlive(all)
}

// heap is the size of the heap after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
