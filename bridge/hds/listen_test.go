package hds

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASocketHasItsMode(t *testing.T) {
	for _, mode := range []uint32{0o660, 0o600} {
		path := filepath.Join(shortDir(t), "not", "there", "yet", "hds.sock")
		b := newBed(t, Config{Listen: []string{"unix://" + path}, SocketMode: mode})
		b.run()
		b.await("to listen", func() bool { return b.Ready() == nil })
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.ModeSocket|os.FileMode(mode), info.Mode())
		require.NoError(t, b.shutDown())
		assert.NoFileExists(t, path, "an orderly end takes its socket away")
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "hds.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false) // as a daemon that was killed
	require.NoError(t, dead.Close())
	require.FileExists(t, path)

	b := newBed(t, Config{Listen: []string{"unix://" + path}})
	b.target = "unix://" + path
	b.run()
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	b.connect("n1").spec()
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	dir := shortDir(t)
	file, link, sub := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "sub")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, os.Mkdir(sub, 0o700))
	for _, path := range []string{file, link, sub} {
		err := newBed(t, Config{Listen: []string{"unix://" + path}}).Run(t.Context())
		require.ErrorContains(t, err, path+" exists and is no socket")
		_, err = os.Lstat(path)
		require.NoError(t, err)
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(b))
}

// TestOneAddressThatFailsFailsAll also shows that the other listeners are let
// go of.
func TestOneAddressThatFailsFailsAll(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	path := filepath.Join(shortDir(t), "hds.sock")
	err = newBed(t, Config{Listen: []string{"unix://" + path, taken.Addr().String()}}).Run(t.Context())
	require.ErrorContains(t, err, "listening on "+taken.Addr().String())
	assert.NoFileExists(t, path)
}

func TestTCP(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	path := filepath.Join(shortDir(t), "hds.sock")

	b := newBed(t, Config{Listen: []string{addr, "unix://" + path}})
	require.ErrorIs(t, b.Ready(), errNotListening, "before Run it does not listen")
	b.run()
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	b.target = "passthrough:///" + addr
	b.connect("n1").spec()
	assert.Contains(t, b.Streams()[0].Peer, "tcp:127.0.0.1:")
	b.target = "unix://" + path
	b.connect("n2").spec()
	assert.Equal(t, fmt.Sprintf("unix, pid %d uid %d gid %d", os.Getpid(), os.Getuid(), os.Getgid()), b.Streams()[1].Peer)
}

// TestAnAddressThatDoesNotExistYet listens on an address of TEST-NET-1, which
// no machine has.
func TestAnAddressThatDoesNotExistYet(t *testing.T) {
	const addr = "192.0.2.1:1"
	path := filepath.Join(shortDir(t), "hds.sock")
	b := newBed(t, Config{Listen: []string{addr, "unix://" + path}})
	b.target = "unix://" + path
	b.run()
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	b.connect("n1").spec()
	b.await("to say what it waits for", func() bool {
		err := b.Ready()
		return err != nil && assert.ObjectsAreEqual(fmt.Sprintf("listening for Envoys: %s: listen tcp %[1]s: bind: cannot assign requested address", addr), err.Error())
	})
	begin := time.Now()
	require.NoError(t, b.shutDown())
	assert.Less(t, time.Since(begin), 3*time.Second)
}

func TestNoAddress(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "no address")
}
