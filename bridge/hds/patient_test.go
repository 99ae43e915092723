package hds

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// lent is a pool that counts what it has lent out.
type lent struct {
	mem.NopBufferPool
	out, ever int
}

func (l *lent) Get(n int) *[]byte {
	l.out, l.ever = l.out+1, l.ever+1
	return l.NopBufferPool.Get(n)
}
func (l *lent) Put(*[]byte) { l.out-- }

// TestAConnectionHoldsABufferOnlyToRead: for TCP and unix sockets, at their end,
// when they are closed and when time is up.
func TestAConnectionHoldsABufferOnlyToRead(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(shortDir(t), "s")} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, address)
			require.NoError(t, err)
			limited := bounded{l, &connections{most: 1, refusals: newRefusals(nil, &counts{})}}
			client, err := net.Dial(network, l.Addr().String())
			require.NoError(t, err)
			conn, err := limited.Accept()
			require.NoError(t, err)
			reader := conn.(*counted)
			pool := &lent{}

			require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			_, _, err = reader.ReadOnReady(8, pool)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Zero(t, pool.out)
			require.NoError(t, conn.SetReadDeadline(time.Time{}))

			_, err = client.Write([]byte("hello again"))
			require.NoError(t, err)
			var got []byte
			for len(got) < 11 {
				buf, n, err := reader.ReadOnReady(8, pool)
				require.NoError(t, err)
				require.Equal(t, 1, pool.out, "it is the reader's")
				got = append(got, (*buf)[:n]...)
				pool.Put(buf)
			}
			assert.Equal(t, "hello again", string(got))

			require.NoError(t, client.Close())
			_, _, err = reader.ReadOnReady(8, pool)
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, conn.Close())
			_, _, err = reader.ReadOnReady(8, pool)
			require.True(t, errors.Is(err, net.ErrClosed), "%v", err)
			assert.Zero(t, pool.out)
			assert.Zero(t, limited.connections.open.Load())
			require.NoError(t, l.Close())
		})
	}
}

// piped is a listener whose connections are not the kernel's.
type piped struct {
	net.Listener
	conn net.Conn
}

func (p piped) Accept() (net.Conn, error) { return p.conn, nil }

func TestAConnectionThatCannotBeReadIsNotKept(t *testing.T) {
	near, far := net.Pipe()
	c := &connections{most: 1, refusals: newRefusals(nil, &counts{})}
	_, err := bounded{piped{conn: near}, c}.Accept()
	require.ErrorContains(t, err, "*net.pipe")
	assert.Zero(t, c.open.Load())
	_, err = far.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe, "it was closed")
}

// spied is a connection that counts how often gRPC reads patiently.
type spied struct {
	*counted
	reads *atomic.Int64
}

func (s spied) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	s.reads.Add(1)
	return s.counted.ReadOnReady(size, pool)
}

// spiedOn is a listener of such connections.
type spiedOn struct {
	bounded
	reads *atomic.Int64
}

func (l spiedOn) Accept() (net.Conn, error) {
	conn, err := l.bounded.Accept()
	if err != nil {
		return nil, err
	}
	return spied{conn.(*counted), l.reads}, nil
}

// TestGRPCReadsPatiently holds gRPC to finding the method, of which its
// documentation does not speak.
func TestGRPCReadsPatiently(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var reads atomic.Int64
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	spy := spiedOn{bounded{l, &connections{most: 9, refusals: newRefusals(nil, &counts{})}}, &reads}
	b := newBed(t, Config{Listen: []string{"192.0.2.1:1"}, Register: func(g *grpc.Server) {
		serving.Go(func() { _ = g.Serve(spy) })
	}})
	b.target = l.Addr().String()
	b.run()
	e := b.connect("n1")
	e.say()
	b.awaitReports(1)
	assert.Positive(t, reads.Load())
}
