package hds

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// intruder speaks HTTP/2 by itself: it does what gRPC's own client refuses to.
type intruder struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	// ended is when the server closed the connection.
	ended chan time.Time
}

// intrude connects to a server in memory, and reads without ever answering.
func (b *bed) intrude(preface string) *intruder {
	b.t.Helper()
	conn, err := b.pipe(context.Background())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	i := &intruder{b.t, conn, http2.NewFramer(conn, nil), make(chan time.Time, 1)}
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		i.ended <- time.Now()
	}()
	if preface != "" {
		_, err = io.WriteString(conn, preface)
		require.NoError(b.t, err)
		require.NoError(b.t, i.WriteSettings())
	}
	return i
}

// open opens stream 1, with more headers.
func (i *intruder) open(headers ...hpack.HeaderField) {
	i.t.Helper()
	i.openAs(1, headers...)
}

// openAs opens a stream of a number.
func (i *intruder) openAs(id uint32, headers ...hpack.HeaderField) {
	i.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, headers...) {
		require.NoError(i.t, enc.WriteField(h))
	}
	b := block.Bytes()
	first := b[:min(len(b), 16_000)]
	require.NoError(i.t, i.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(first) == len(b)}))
	for b = b[len(first):]; len(b) > 0; {
		part := b[:min(len(b), 16_000)]
		b = b[len(part):]
		require.NoError(i.t, i.WriteContinuation(id, len(b) == 0, part))
	}
}

// say sends the health check request that begins a stream.
func (i *intruder) say(id string) {
	i.t.Helper()
	b, err := proto.Marshal(requestOf(id))
	require.NoError(i.t, err)
	require.NoError(i.t, i.WriteData(1, false, append([]byte{0, 0, 0, 0, byte(len(b))}, b...)))
}

// gone fails the test unless the server ends the connection within that time.
func (i *intruder) gone(within time.Duration) {
	i.t.Helper()
	start := time.Now()
	select {
	case at := <-i.ended:
		assert.LessOrEqual(i.t, at.Sub(start), within)
	case <-time.After(time.Hour):
		require.FailNow(i.t, "the connection is open for ever")
	}
}

func TestWhoConnectsAndIsSilentIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		preface string
		within  time.Duration
	}{
		"not a word":                      {"", 5 * time.Second},
		"no HTTP/2":                       {"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 50), 5 * time.Second},
		"no stream, and pings unanswered": {http2.ClientPreface, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := serveInMemory(t)
				b.intrude(c.preface).gone(c.within)
			})
		})
	}
}

func TestAnEnvoyThatHangsIsEndedByKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		plan, _ := planOf(nil)
		b.SetPlan(plan)
		i := b.intrude(http2.ClientPreface)
		i.open()
		i.say("n1")
		synctest.Wait()
		require.Len(t, b.Streams(), 1)
		i.gone(15 * time.Second)
		synctest.Wait()
		assert.Empty(t, b.Streams())
	})
}

func TestAConnectionWithoutAStreamIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		conn, err := b.pipe(context.Background())
		require.NoError(t, err)
		i := &intruder{t, conn, http2.NewFramer(conn, conn), make(chan time.Time, 1)}
		_, err = io.WriteString(conn, http2.ClientPreface)
		require.NoError(t, err)
		require.NoError(t, i.WriteSettings())
		go func() {
			for { // it answers every ping
				f, err := i.ReadFrame()
				if err != nil {
					i.ended <- time.Now()
					return
				}
				if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
					_ = i.WritePing(true, p.Data) // it may be over
				}
			}
		}()
		i.gone(connectionIdle + time.Second)
		_ = conn.Close() // the server has closed it
	})
}

func TestWhoPingsTooOftenIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		i := b.intrude(http2.ClientPreface)
		for n := range 5 {
			if i.WritePing(false, [8]byte{byte(n)}) != nil {
				break
			}
			time.Sleep(time.Second)
		}
		i.gone(time.Second)
	})
}

// One connection is one Envoy: it cannot take the streams of all others.
func TestStreamsOfOneConnectionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemoryWith(t, Config{MaxStreams: 10 * maxPerConnection}) // so that every one stays until it has been silent for too long
		i := b.intrude(http2.ClientPreface)
		for n := range uint32(3 * maxPerConnection) {
			i.openAs(2*n + 1)
		}
		synctest.Wait()
		time.Sleep(firstMessageTimeout + time.Second)
		synctest.Wait()
		assert.Equal(t, maxPerConnection, b.counts.get("refused first_message"))
		i.gone(2 * connectionIdle)
	})
}

func TestMetadataIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		i := b.intrude(http2.ClientPreface)
		i.open(hpack.HeaderField{Name: "x-much", Value: strings.Repeat("x", maxMetadata)})
		_ = i.WriteData(1, false, nil) // the stream may be gone
		time.Sleep(firstMessageTimeout + time.Second)
		synctest.Wait()
		assert.Zero(t, b.counts.get("refused first_message"), "it is no stream that could be silent")
		i.gone(connectionIdle)
	})
}

// Whose token is not known yet is not listened to, and of what he sends all the same
// little is kept: streams with guesses would fill the memory of a small task.
func TestWhoWaitsToBeLetInCostsLittleMemory(t *testing.T) {
	who := &rights{hang: make(chan struct{})}
	defer close(who.hang)
	b := serveWith(t, Config{Authorizer: who, MaxStreams: maxPerConnection})
	b.pipe = func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(b.target, "unix://"))
	}
	i := b.intrude(http2.ClientPreface)
	before, part := heap(), make([]byte, 16_000)
	each := func() int64 { return (int64(heap()) - int64(before)) / maxPerConnection }
	for n := range uint32(maxPerConnection) {
		i.openAs(2*n+1, hpack.HeaderField{Name: tokenHeader, Value: fmt.Sprintf("guess-%d", n)})
	}
	b.await("to ask", func() bool { return who.questions() == maxPerConnection })
	for range streamWindow / len(part) { // who sends more loses his stream
		for n := range uint32(maxPerConnection) {
			require.NoError(t, i.WriteData(2*n+1, false, part))
		}
	}
	b.await("to have received it all", func() bool { return each() > streamWindow*3/4 })
	assert.Less(t, each(), int64(100_000))
	assert.Equal(t, maxPerConnection, who.questions())
}
