package lab

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialed is one end of a connection through a relay.
type dialed struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

// newEcho starts a relay to a server that sends back each line.
func newEcho(t *testing.T) (*Relay, func() *dialed) {
	r, dial, _ := newCountingEcho(t)
	return r, dial
}

// newCountingEcho is newEcho, with how many connections have reached the server.
func newCountingEcho(t *testing.T) (*Relay, func() *dialed, *atomic.Int64) {
	t.Helper()
	l, reached := newLab(t), new(atomic.Int64)
	behind, err := net.Listen("unix", l.Path("behind.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = behind.Close() })
	go func() {
		for {
			conn, err := behind.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	port, err := l.Port()
	require.NoError(t, err)
	r, err := l.StartLink(loopback(port), "unix://"+l.Path("behind.sock"))
	require.NoError(t, err)
	return r, func() *dialed {
		conn, err := net.Dial("tcp", loopback(port))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return &dialed{t, conn, bufio.NewReader(conn)}
	}, reached
}

func (d *dialed) says(line string) {
	_, err := io.WriteString(d, line+"\n")
	require.NoError(d.t, err)
}

// hears reads a line, for as long as a test may wait, or the time given.
func (d *dialed) hears(within time.Duration) (string, error) {
	require.NoError(d.t, d.SetReadDeadline(time.Now().Add(within)))
	return d.in.ReadString('\n')
}

func (d *dialed) answers(line string) {
	d.t.Helper()
	d.says(line)
	got, err := d.hears(time.Minute)
	require.NoError(d.t, err)
	require.Equal(d.t, line+"\n", got)
}

func (d *dialed) silent() {
	d.t.Helper()
	_, err := d.hears(200 * time.Millisecond)
	var timeout net.Error
	require.ErrorAs(d.t, err, &timeout)
	require.True(d.t, timeout.Timeout(), "%s", err)
}

func TestARelayCarriesAndTellsOfTheEnd(t *testing.T) {
	_, dial := newEcho(t)
	d := dial()
	d.answers("one")
	require.NoError(t, closeWrite(d.Conn))
	_, err := d.hears(time.Minute)
	require.ErrorIs(t, err, io.EOF)
}

func TestARelayRefuses(t *testing.T) {
	r, dial := newEcho(t)
	d := dial()
	d.answers("one")
	require.NoError(t, r.SetTrouble(Trouble{Refuse: true}))
	_, err := d.hears(time.Minute)
	require.ErrorIs(t, err, io.EOF, "those that are open end")
	_, err = net.Dial("tcp", d.RemoteAddr().String())
	require.ErrorContains(t, err, "refused")
	require.NoError(t, r.SetTrouble(Trouble{}))
	dial().answers("two")
}

func TestARelaySwallowsForGood(t *testing.T) {
	r, dial, reached := newCountingEcho(t)
	before, untouched := dial(), dial()
	before.answers("one")
	untouched.answers("one")
	require.NoError(t, r.SetTrouble(Trouble{Swallow: true}))
	meanwhile := dial()
	for _, d := range []*dialed{before, meanwhile} {
		d.says("two")
		d.silent()
	}
	assert.EqualValues(t, 2, reached.Load(), "nobody hears of the third")
	require.NoError(t, r.SetTrouble(Trouble{}))
	for _, d := range []*dialed{before, meanwhile} {
		d.says("three")
		d.silent()
	}
	untouched.answers("four")
	dial().answers("five")
}

func TestARelayStallsAndGoesOn(t *testing.T) {
	r, dial := newEcho(t)
	before := dial()
	before.answers("one")
	require.NoError(t, r.SetTrouble(Trouble{Stall: true}))
	meanwhile := dial()
	for _, d := range []*dialed{before, meanwhile} {
		d.says("two")
		d.silent()
	}
	require.NoError(t, r.SetTrouble(Trouble{}))
	for _, d := range []*dialed{before, meanwhile} {
		got, err := d.hears(time.Minute)
		require.NoError(t, err)
		require.Equal(t, "two\n", got)
	}
}

func TestARelayTakesItsTime(t *testing.T) {
	r, dial := newEcho(t)
	took := func(trouble Trouble) time.Duration {
		require.NoError(t, r.SetTrouble(trouble))
		d, start := dial(), time.Now()
		d.says("0123456789012345678901234567890123456789")
		_, err := d.hears(time.Minute)
		require.NoError(t, err)
		return time.Since(start)
	}
	assert.GreaterOrEqual(t, took(Trouble{Delay: 100 * time.Millisecond}), 200*time.Millisecond, "there and back")
	assert.GreaterOrEqual(t, took(Trouble{Rate: 100}), 300*time.Millisecond, "41 bytes of which 10 go at once")
}

// All bytes count, both ways: there are five to each line.
func TestARelayCutsInTheMiddle(t *testing.T) {
	r, dial := newEcho(t)
	require.NoError(t, r.SetTrouble(Trouble{Cut: 6}))
	for _, want := range []string{"a", "abcd\n", "abcd\nabc"} {
		d, got := dial(), ""
		for {
			_, _ = io.WriteString(d, "abcd\n")
			line, err := d.hears(time.Minute)
			got += line
			if err != nil {
				break
			}
		}
		assert.Equal(t, want, got)
	}
	require.NoError(t, r.SetTrouble(Trouble{}))
	dial().answers("whole")
}
