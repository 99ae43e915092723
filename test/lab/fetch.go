package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// progressEvery is the pause between two lines of progress.
const progressEvery = 5 * time.Second

// cached returns the path of a program in the user's cache folder. If it is not
// there it has make produce it in a temporary folder; of several processes that
// want it at once, one makes it and the others wait.
func cached(ctx context.Context, name string, progress io.Writer, make func(tmp string) (string, error)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "consul-hds")
	target := filepath.Join(dir, name)
	if executable(target) {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, target+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if executable(target) {
		return target, nil
	}
	tmp := target + ".tmp" // ours by the lock; a killed run may have left one
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	made, err := make(tmp)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(made, 0o755), os.Rename(made, target)); err != nil {
		return "", fmt.Errorf("putting %s into the cache: %w", name, err)
	}
	return target, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// lockFile waits for an exclusive lock, which also ends with this process.
func lockFile(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	start, told := time.Now(), time.Time{}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if time.Since(told) > progressEvery {
			told = time.Now()
			say(progress, start, "waiting for another process that fetches %s", strings.TrimSuffix(filepath.Base(path), ".lock"))
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// given looks a program up in an environment variable, then in PATH.
func given(variable, name string) (string, bool, error) {
	if path := os.Getenv(variable); path != "" {
		path, err := filepath.Abs(path)
		if err == nil && !executable(path) {
			err = errors.New("no executable file: " + path)
		}
		if err != nil {
			return "", false, fmt.Errorf("$%s: %w", variable, err)
		}
		return path, true, nil
	}
	path, err := exec.LookPath(name)
	return path, err == nil, nil
}

// say writes one line of progress.
func say(w io.Writer, start time.Time, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "%s (%.0f s)\n", fmt.Sprintf(format, args...), time.Since(start).Seconds())
}

// runVisibly runs a command and, every few seconds, writes a line of progress
// with the number of lines the command has printed on stderr. What it printed
// last is part of the error.
func runVisibly(ctx context.Context, progress io.Writer, cmd *exec.Cmd, what, unit string) error {
	start := time.Now()
	out := &lineCounter{}
	cmd.Stdout, cmd.Stderr = out, out
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				say(progress, start, "%s: %d %s", what, out.lines.Load(), unit)
			}
		}
	}()
	err := runTied(ctx, cmd)
	close(done)
	<-ended
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, out.tail)
	}
	say(progress, start, "%s: done", what)
	return nil
}

// lineCounter counts the lines written to it and keeps the last 2 kB. Only
// lines may be read while it is written to.
type lineCounter struct {
	lines atomic.Int64
	tail  []byte
}

// Write implements io.Writer.
func (c *lineCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines.Add(1)
		}
	}
	c.tail = append(c.tail, p...)
	c.tail = c.tail[max(0, len(c.tail)-2048):]
	return len(p), nil
}
