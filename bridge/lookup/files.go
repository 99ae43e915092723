package lookup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	// The paces of files: how often each is read again, and how long that may
	// take.
	filesEvery   = 2 * time.Second
	filesTimeout = 5 * time.Second
	// maxFile bounds a file: a bundle of all public CAs is a fifth of this.
	maxFile = 1 << 20
)

// NewFiles makes a table of file paths and what each file holds. Whatever is no
// regular file, such as a FIFO that would hang its reader for ever
// (facts/envoy-hds.md 0b), is an error, and so is one that is empty or larger
// than 1 MiB.
func NewFiles() *Table[[]byte] {
	return New(Config[[]byte]{
		Fetch: func(_ context.Context, path string, _ []byte) ([]byte, error) { return ReadFile(path) },
		Equal: bytes.Equal,
		Every: filesEvery, Timeout: filesTimeout,
	})
}

// ReadFile reads a regular file of 1 byte to 1 MiB, and never hangs on one that
// is not.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, bare(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %q: %w", path, bare(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("reading %q: it is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %q: %w", path, bare(err))
	case len(b) > maxFile:
		return nil, fmt.Errorf("reading %q: it is larger than 1 MiB", path)
	case len(b) == 0:
		return nil, fmt.Errorf("reading %q: it is empty", path)
	}
	return b, nil
}

// bare is an error of os without the operation and the path, which are told
// already.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
