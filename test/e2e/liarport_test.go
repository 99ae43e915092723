package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/consul-hds/consul-hds/test/lab"
)

// TestGarbageOnTheHDSPort is sent by those who speak no HDS, over TCP.
func TestGarbageOnTheHDSPort(t *testing.T) {
	t.Parallel()
	port, err := theLab.Port()
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	w := newConsul(t, lab.ConsulOptions{})
	w.hds = addr
	w.startDaemonWith(lab.DaemonOptions{Consul: w.consul, Config: liarConfig, Args: []string{"-hds-listen", addr}})
	v := newVictim(w)
	liars := []mischief{{"half-open connections", (*victim).halfOpen}}
	words := garbage()
	for _, name := range slices.Sorted(maps.Keys(words)) {
		liars = append(liars, mischief{name, func(v *victim) string { return v.spoken(words[name]) }})
	}
	liars = append(liars,
		mischief{"SETTINGS without end", flood(30_000, func(f *http2.Framer, _ uint32) error { return f.WriteSettings() })},
		mischief{"PING without end", flood(30_000, func(f *http2.Framer, n uint32) error { return f.WritePing(false, [8]byte{byte(n)}) })},
		mischief{"PRIORITY without end", flood(30_000, func(f *http2.Framer, n uint32) error {
			return f.WritePriority(2*n+1, http2.PriorityParam{Weight: byte(n)})
		})},
		mischief{"RST_STREAM without end", flood(30_000, func(f *http2.Framer, n uint32) error { return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel) })},
		mischief{"rapid reset", flood(10_000, rapidReset)},
		mischief{"frames of no known type", flood(30_000, func(f *http2.Framer, n uint32) error { return f.WriteRawFrame(200, 0, n, []byte("garbage")) })},
		mischief{"empty DATA without end", (*victim).emptyData},
		mischief{"windows that overflow", flood(3, func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1<<31-1) })},
		mischief{"DATA on no stream", flood(3, func(f *http2.Framer, n uint32) error { return f.WriteData(2*n+1, true, []byte("x")) })},
		mischief{"a frame that is too long", flood(1, func(f *http2.Framer, _ uint32) error {
			return f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20))
		})},
		mischief{"a huge header", (*victim).hugeHeader},
		mischief{"CONTINUATION without end", (*victim).continuations},
		mischief{"an HPACK bomb", (*victim).hpackBomb},
		mischief{"a length of 4 GB", (*victim).hugeLength},
		mischief{"other methods and types", (*victim).otherMethods},
	)
	v.endure(liars)
}

// garbage is what comes in place of HTTP/2.
func garbage() map[string][]byte {
	random := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random) // never fails
	hello := []byte{0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3}
	return map[string][]byte{
		"a TLS hello":               append(hello, random[:194]...),
		"HTTP/1.1":                  []byte("GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + strings.Repeat("x", 100)),
		"HTTP/1.1 without end":      []byte("POST / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 100_000)),
		"an upgrade to h2c":         []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"),
		"random bytes":              random,
		"zeros":                     make([]byte, 1<<20),
		"a preface, then random":    append([]byte(http2.ClientPreface), random...),
		"half a preface, then more": append([]byte(http2.ClientPreface[:12]), random[:1000]...),
	}
}

// plug connects to the HDS port.
func (v *victim) plug() net.Conn {
	v.t.Helper()
	network, addr := "tcp", v.hds
	if addr == "" {
		network, addr = "unix", strings.TrimPrefix(v.daemon.HDSAddr(), "unix://")
	}
	conn, err := net.Dial(network, addr)
	require.NoError(v.t, err)
	v.leaves = append(v.leaves, func() { _ = conn.Close() })
	return conn
}

// closed waits until the daemon has closed a connection, and tells after how long.
func closed(conn net.Conn, within time.Duration) (time.Duration, error) {
	start := time.Now()
	if err := conn.SetReadDeadline(start.Add(within)); err != nil {
		return 0, err
	}
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("it is open after %s", within)
	}
	return time.Since(start), nil
}

// isClosed fails the test if the daemon does not close a connection.
func (v *victim) isClosed(conn net.Conn, within time.Duration) string {
	v.t.Helper()
	took, err := closed(conn, within)
	require.NoError(v.t, err)
	return "closed after " + took.Round(time.Millisecond).String()
}

// spoken sends bytes and waits for the end.
func (v *victim) spoken(words []byte) string {
	conn := v.plug()
	go func() { _, _ = conn.Write(words) }() // the daemon may close it meanwhile
	return v.isClosed(conn, 7*time.Second)
}

// halfOpen are connections that say nothing, or nothing more, or are torn.
func (v *victim) halfOpen() string {
	var mute, prefaced []net.Conn
	for range 50 {
		mute = append(mute, v.plug())
		p := v.plug()
		_, err := io.WriteString(p, http2.ClientPreface)
		require.NoError(v.t, err)
		require.NoError(v.t, http2.NewFramer(p, nil).WriteSettings())
		prefaced = append(prefaced, p)
		torn := v.plug().(*net.TCPConn)
		_, err = torn.Write([]byte(http2.ClientPreface[:10]))
		require.NoError(v.t, err)
		require.NoError(v.t, torn.SetLinger(0)) // its end is a reset
		require.NoError(v.t, torn.Close())
	}
	vanished := v.speak() // opens a stream and does not answer pings any more
	vanished.headers(1)
	vanished.hello(1, "stranger")
	v.flips()
	for _, c := range mute {
		v.isClosed(c, 6*time.Second)
	}
	for _, c := range prefaced {
		v.isClosed(c, 16*time.Second)
	}
	return fmt.Sprintf("%d mute and %d prefaced; one that vanished: %s", len(mute), len(prefaced), v.isClosed(vanished.Conn, 16*time.Second))
}

// speaker speaks HTTP/2 by itself, and does not listen.
type speaker struct {
	net.Conn
	*http2.Framer
	v     *victim
	block bytes.Buffer
	*hpack.Encoder
}

// blockOf is the header block of a stream of HDS.
func blockOf() []byte {
	s := &speaker{}
	s.Encoder = hpack.NewEncoder(&s.block)
	return s.request()
}

// speak begins a connection of HTTP/2.
func (v *victim) speak() *speaker {
	v.t.Helper()
	conn := v.plug()
	s := &speaker{Conn: conn, Framer: http2.NewFramer(conn, nil), v: v}
	s.Encoder = hpack.NewEncoder(&s.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err == nil {
		_ = s.WriteSettings() // the daemon may have closed it already
	}
	return s
}

// request is the header block of a stream of HDS, with more fields, or others.
func (s *speaker) request(more ...hpack.HeaderField) []byte {
	fields := map[string]string{
		":method": "POST", ":scheme": "http", ":authority": "x", ":path": healthv3.HealthDiscoveryService_StreamHealthCheck_FullMethodName,
		"content-type": "application/grpc", "te": "trailers",
	}
	var extra []hpack.HeaderField
	for _, m := range more {
		if _, ok := fields[m.Name]; ok {
			fields[m.Name] = m.Value
		} else {
			extra = append(extra, m)
		}
	}
	s.block.Reset()
	for _, name := range []string{":method", ":scheme", ":authority", ":path", "content-type", "te"} {
		_ = s.WriteField(hpack.HeaderField{Name: name, Value: fields[name]}) // into memory
	}
	for _, m := range extra {
		_ = s.WriteField(m) // into memory
	}
	return bytes.Clone(s.block.Bytes())
}

// headers opens a stream.
func (s *speaker) headers(id uint32, more ...hpack.HeaderField) {
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.request(more...), EndHeaders: true}) // it may be over
}

// hello says on a stream who it is.
func (s *speaker) hello(id uint32, node string) {
	b := append([]byte{0x0a, byte(len(node) + 4), 0x0a, byte(len(node) + 2), 0x0a, byte(len(node))}, node...)
	_ = s.WriteData(id, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)) // it may be over
}

// flood sends the same over and over, as long as the daemon takes it.
func flood(times uint32, one func(*http2.Framer, uint32) error) func(*victim) string {
	return func(v *victim) string {
		s := v.speak()
		go func() { _, _ = io.Copy(io.Discard, s.Conn) }() // else the daemon is kept from reading on
		require.NoError(v.t, s.SetWriteDeadline(time.Now().Add(patience)))
		n := uint32(0)
		for n < times && one(s.Framer, n) == nil {
			n++
		}
		return fmt.Sprintf("%d of %d taken", n, times)
	}
}

// lasts reads for a while, and tells what became of the connection. Who does not
// answer pings is ended after 15 s, as halfOpen shows.
func lasts(conn net.Conn) string {
	took, err := closed(conn, time.Second)
	if err != nil {
		return err.Error()
	}
	return "closed after " + took.Round(time.Millisecond).String()
}

func rapidReset(f *http2.Framer, n uint32) error {
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: blockOf(), EndHeaders: true}); err != nil {
		return err
	}
	return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
}

func (v *victim) emptyData() string {
	return flood(30_000, func(f *http2.Framer, n uint32) error {
		if n == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: blockOf(), EndHeaders: true})
		}
		return f.WriteData(1, false, nil)
	})(v)
}

// hugeHeader is one of 1 MiB, in parts.
func (v *victim) hugeHeader() string {
	s := v.speak()
	block := s.request(hpack.HeaderField{Name: "x-huge", Value: strings.Repeat("~", 1<<20)})
	go s.parts(block)
	return lasts(s.Conn)
}

// parts sends a block of headers in frames of the common size.
func (s *speaker) parts(block []byte) {
	const part = 16 << 10
	if s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:part]}) != nil {
		return
	}
	for block = block[part:]; len(block) > 0; block = block[min(part, len(block)):] {
		if s.WriteContinuation(1, len(block) <= part, block[:min(part, len(block))]) != nil {
			return
		}
	}
}

// continuations are headers without end, which may be none.
func (v *victim) continuations() string {
	s := v.speak()
	block := s.request()
	go func() {
		err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
		for n := 0; n < 30_000 && err == nil; n++ {
			err = s.WriteContinuation(1, false, nil)
		}
	}()
	return lasts(s.Conn)
}

// hpackBomb is a header of 4 kB that is named 16,000 times by one byte each.
func (v *victim) hpackBomb() string {
	s := v.speak()
	block := s.request(hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("b", 4000)})
	block = append(block, bytes.Repeat([]byte{0x80 | 62}, 16_000)...)
	go s.parts(block)
	return lasts(s.Conn)
}

// hugeLength announces a message of 4 GB, and sends some of it.
func (v *victim) hugeLength() string {
	s := v.speak()
	s.headers(1)
	_ = s.WriteData(1, false, append([]byte{0, 0xff, 0xff, 0xff, 0xff}, make([]byte, 10_000)...)) // it may be over
	return lasts(s.Conn)
}

// otherMethods are requests of HTTP/2 that are none of HDS.
func (v *victim) otherMethods() string {
	s := v.speak()
	for i, f := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":method", Value: ""}, {Name: ":path", Value: "/"}, {Name: ":path", Value: ""},
		{Name: ":path", Value: "/envoy.service.health.v3.HealthDiscoveryService/FetchHealthCheck"}, {Name: ":path", Value: "/x/" + strings.Repeat("y", 8000)},
		{Name: "content-type", Value: "text/html"}, {Name: "grpc-timeout", Value: "99999999999H"}, {Name: "grpc-encoding", Value: "gzip"},
		{Name: "grpc-trace-bin", Value: "%%%"}, {Name: "connection", Value: "close"}, {Name: ":authority", Value: "\x00"},
	} {
		id := uint32(2*i + 1)
		s.headers(id, f)
		_ = s.WriteData(id, true, []byte{7, 0, 0, 0, 1, 0}) // compressed by nothing that there is
	}
	return lasts(s.Conn)
}
