package bridge

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// anotherDaemon is a process that tries to take a lock; said is how that went.
// It holds it until it is killed.
func anotherDaemon(t *testing.T, dir string) (p *exec.Cmd, said string) {
	t.Helper()
	return anotherDaemonBy(t, dir, os.Args[0])
}

// anotherDaemonBy is anotherDaemon, by another command that starts it.
func anotherDaemonBy(t *testing.T, dir string, command ...string) (p *exec.Cmd, said string) {
	t.Helper()
	p = exec.Command(command[0], command[1:]...)
	p.Env = append(os.Environ(), lockDirEnv+"="+dir)
	_, err := p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { kill(p) })
	said, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return p, said
}

func kill(p *exec.Cmd) {
	_ = p.Process.Kill() // it may have been killed before
	_ = p.Wait()
}

func TestTheLockIsHeldByOneProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	p, said := anotherDaemon(t, dir)
	require.Equal(t, "taken: <nil>\n", said)
	for range 2 { // a refusal must not spoil what the holder wrote
		_, err := takeLock(dir)
		require.ErrorContains(t, err, fmt.Sprintf("%s is held by another consul-hds agent, pid %d", filepath.Join(dir, lockName), p.Process.Pid))
	}
	kill(p)
	l, err := takeLock(dir)
	require.NoError(t, err, "the kernel lets go of it with the process")
	_, said = anotherDaemon(t, dir)
	assert.Contains(t, said, fmt.Sprintf("pid %d\n", os.Getpid()))
	require.NoError(t, l.release())
	_, said = anotherDaemon(t, dir)
	assert.Equal(t, "taken: <nil>\n", said)
}

func TestALockOnAFullDiskIsHeldAllTheSame(t *testing.T) {
	dir := t.TempDir()
	p, said := anotherDaemonBy(t, dir, "sh", "-c", `ulimit -f 0 && exec "$0"`, os.Args[0])
	require.Regexp(t, `^taken: <nil>, unsigned: write .*: file too large\n$`, said)
	_, err := takeLock(dir)
	require.ErrorContains(t, err, "is held by another consul-hds agent, which has not said who it is")
	kill(p)
	_, said = anotherDaemon(t, dir)
	assert.Equal(t, "taken: <nil>\n", said)
}

func TestALockThatCannotBeTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := takeLock(file)
	require.ErrorContains(t, err, "making the data directory")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, lockName), 0o700))
	_, err = takeLock(dir)
	require.ErrorContains(t, err, "opening the lock file")
}

// TestCleanupTellsWhyItRefuses: a lock that cannot be looked at is no daemon that runs.
func TestCleanupTellsWhyItRefuses(t *testing.T) {
	dir := t.TempDir()
	l, err := takeLock(dir)
	require.NoError(t, err)
	defer l.release()
	_, err = Cleanup(t.Context(), CleanupConfig{DataDir: dir})
	require.ErrorContains(t, err, fmt.Sprintf("beside a running daemon, which would make its checks anew (stop it first): %s is held by another consul-hds agent, pid %d", filepath.Join(dir, lockName), os.Getpid()))
	_, err = Cleanup(t.Context(), CleanupConfig{DataDir: filepath.Join(dir, lockName)})
	require.ErrorContains(t, err, "whether a daemon runs cannot be told: making the data directory")
	require.NotContains(t, err.Error(), "stop it first")
}

func TestAHolderThatHasNotSignedYet(t *testing.T) {
	dir := t.TempDir()
	l, err := takeLock(dir)
	require.NoError(t, err)
	defer l.release()
	require.NoError(t, l.file.Truncate(0))
	_, err = takeLock(dir)
	require.ErrorContains(t, err, "which has not said who it is")
}
