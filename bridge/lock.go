package bridge

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockName is the file in the data directory that one running daemon holds.
const lockName = "consul-hds.lock"

// errHeld says that the lock is there and another process has it.
var errHeld = errors.New("held by another consul-hds agent")

// lock is held by one daemon of a data directory. The kernel lets go of it when
// the process ends, however it ends; the file itself stays.
type lock struct {
	file *os.File
	// unsigned is why the file does not say who holds it, as on a full disk. It is held
	// all the same.
	unsigned error
}

// takeLock takes the lock of a data directory, or says who holds it.
func takeLock(dir string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is %w, %s", path, errHeld, holder(f))
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &lock{file: f, unsigned: sign(f)}, nil
}

// sign writes into the file who holds it.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "pid %d\n", os.Getpid()), 0)
	return err
}

// holder reads who holds the file.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if s := strings.TrimSpace(string(b)); err == nil && s != "" {
		return s
	}
	return "which has not said who it is"
}

// release lets go of the lock.
func (l *lock) release() error { return l.file.Close() }
