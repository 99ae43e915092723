// Package lab runs a real Consul, real Envoys, the built daemon and small apps
// on free loopback ports, for the end-to-end tests and for the demo.
//
// Everything a Lab starts dies with it: by Close, by the end of its context, or,
// when the process itself is killed, by the kernel (see process.go). It is for
// Linux only.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest unix socket path that Linux, and Envoy, take.
const maxSocketPath = 107

// staleAge is how old a work folder without an owner must be to be swept away:
// a younger one may be about to be locked.
const staleAge = 10 * time.Second

// Options of a Lab. The zero value will do.
type Options struct {
	// Progress gets lines about what takes long: fetching and building. Nil
	// is silence.
	Progress io.Writer
	// Race builds the daemon with the race detector. LAB_RACE=1 does too.
	Race bool
	// Keep leaves the work folder, with all logs, behind. LAB_KEEP=1 does too.
	Keep bool
}

// Lab owns a work folder, ports and child processes. It is safe for concurrent
// use.
type Lab struct {
	opts Options
	root string
	dir  string
	lock *os.File

	closeOnce sync.Once
	closeErr  error

	buildOnce sync.Once
	binary    string
	buildErr  error

	mu        sync.Mutex
	closed    bool
	procs     []*Process
	closers   []func()
	ports     []net.Listener
	names     map[string]int
	shortDirs []string
}

// New makes a Lab with a work folder below .lab of the repository, and sweeps
// away the folders of runs that were killed. The Lab closes itself when ctx
// ends.
//
// It unsets the CONSUL_* variables of this process, CONSUL_BIN excepted: a Lab
// talks to its own Consul only.
func New(ctx context.Context, opts Options) (*Lab, error) {
	root, err := RepoRoot()
	if err != nil {
		return nil, err
	}
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	opts.Race = opts.Race || os.Getenv("LAB_RACE") == "1"
	opts.Keep = opts.Keep || os.Getenv("LAB_KEEP") == "1"
	unsetConsulVariables()
	l := &Lab{opts: opts, root: root, names: map[string]int{}}
	if err := l.makeDir(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	l.onClose(func() { stop() })
	return l, nil
}

func unsetConsulVariables() {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "CONSUL_") && name != "CONSUL_BIN" {
			_ = os.Unsetenv(name)
		}
	}
}

// makeDir makes and locks the work folder. A Lab that closes at the same time
// may remove the common parent in between, hence the second try.
func (l *Lab) makeDir() error {
	parent := filepath.Join(l.root, ".lab")
	sweep(parent)
	var err error
	for range 3 {
		if err = os.MkdirAll(parent, 0o755); err != nil {
			break
		}
		if l.dir, err = os.MkdirTemp(parent, "l-"); err == nil {
			l.lock, err = lockDir(l.dir)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("making the lab's work folder: %w", err)
	}
	return nil
}

// lockDir locks a folder for as long as the answer, or this process, lives.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return f, nil
}

// sweep removes the work folders that nobody holds a lock on.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, "l-*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < staleAge {
			continue
		}
		if f, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
}

// Dir is the work folder: configs, sockets and logs of all that was started.
func (l *Lab) Dir() string { return l.dir }

// Root is the root of the repository.
func (l *Lab) Root() string { return l.root }

// Path is a path in the work folder.
func (l *Lab) Path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// SocketPath is a path for a unix socket of that name: in the work folder, or,
// when that path would be longer than a socket's may be, in a short temporary
// folder which Close removes too.
func (l *Lab) SocketPath(name string) (string, error) {
	if path := l.Path(name); len(path) <= maxSocketPath {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		return "", fmt.Errorf("making a folder for socket %s: %w", name, err)
	}
	l.mu.Lock()
	l.shortDirs = append(l.shortDirs, dir)
	l.mu.Unlock()
	return filepath.Join(dir, name), nil
}

// uniqueName makes name, or fallback when empty, unique in the lab.
func (l *Lab) uniqueName(name, fallback string) string {
	if name == "" {
		name = fallback
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[name]++
	if n := l.names[name]; n > 1 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// onClose has Close call f, before what was given to it earlier.
func (l *Lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// Close kills, newest first, every process the lab started, waits for their
// ends, and removes the work folder. Further calls wait for the first.
func (l *Lab) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Lab) close() error {
	l.mu.Lock()
	l.closed = true
	procs, closers, ports := l.procs, l.closers, l.ports
	l.mu.Unlock()
	var errs []error
	for i := len(procs) - 1; i >= 0; i-- {
		errs = append(errs, procs[i].Kill())
	}
	for _, f := range slices.Backward(closers) {
		f()
	}
	for _, p := range ports {
		_ = p.Close()
	}
	errs = append(errs, l.removeDirs())
	return errors.Join(errs...)
}

func (l *Lab) removeDirs() error {
	defer func() { _ = l.lock.Close() }()
	var errs []error
	for _, dir := range l.shortDirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	if !l.opts.Keep {
		errs = append(errs, os.RemoveAll(l.dir))
		_ = os.Remove(filepath.Dir(l.dir)) // fails while another lab lives
	}
	return errors.Join(errs...)
}
