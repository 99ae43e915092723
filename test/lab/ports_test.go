package lab

import (
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// startPrograms starts programs, some at once, until the test ends: each is a copy
// of this process between fork and exec.
func startPrograms(t *testing.T) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for range 4 {
		running.Go(func() {
			for t.Context().Err() == nil {
				_ = exec.Command("/bin/true").Run()
			}
		})
	}
}

func TestPortsAreFreeWhileProgramsAreStarted(t *testing.T) {
	l := newLab(t)
	startPrograms(t)
	for range 500 {
		port, err := l.Port()
		require.NoError(t, err)
		ln, err := net.Listen("tcp", loopback(port)) // which does not try again
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		for range 3 {
			ln, err := Listen("tcp", loopback(port))
			require.NoError(t, err)
			require.NoError(t, ln.Close())
		}
	}
}

func TestAWrittenProgramRunsWhileProgramsAreStarted(t *testing.T) {
	dir := t.TempDir()
	startPrograms(t)
	path := filepath.Join(dir, "program")
	for range 500 {
		require.NoError(t, WriteProgram(path, []byte("#!/bin/sh\nexit 0\n")))
		require.NoError(t, exec.Command(path).Run())
	}
}
