package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// modulePath is the module whose go.mod marks the root of the repository.
const modulePath = "github.com/consul-hds/consul-hds"

// RepoRoot is the root of the repository around the current folder.
func RepoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for {
		if isRoot(dir) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the repository: not inside it (no go.mod of " + modulePath + ")")
		}
		dir = parent
	}
}

func isRoot(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if strings.TrimSpace(line) == "module "+modulePath {
			return true
		}
	}
	return false
}

// DaemonBinary is the path of the daemon: $LAB_DAEMON, else built from the
// working tree into the work folder by the first call.
func (l *Lab) DaemonBinary(ctx context.Context) (string, error) {
	l.buildOnce.Do(func() {
		if path := os.Getenv("LAB_DAEMON"); path != "" {
			l.binary, l.buildErr = filepath.Abs(path)
			return
		}
		start := time.Now()
		l.binary = l.Path("consul-hds")
		l.buildErr = l.buildDaemon(ctx, l.binary)
		_, _ = fmt.Fprintf(l.opts.Progress, "consul-hds: built in %.1f s\n", time.Since(start).Seconds())
	})
	return l.binary, l.buildErr
}

// VersionBinary builds the daemon of the working tree once more, as a version of
// that name, as releases are.
func (l *Lab) VersionBinary(ctx context.Context, version string) (string, error) {
	binary := l.Path("consul-hds-" + version)
	return binary, l.buildDaemon(ctx, binary, "-ldflags", "-X main.version="+version)
}

// buildDaemon builds the daemon of the working tree, by further options of go build.
func (l *Lab) buildDaemon(ctx context.Context, to string, options ...string) error {
	args, env := append([]string{"build", "-buildvcs=false", "-o", to}, options...), "CGO_ENABLED=0"
	if l.opts.Race {
		args, env = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "./cmd/consul-hds")...)
	cmd.Dir = l.root
	cmd.Env = append(os.Environ(), env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := runTied(ctx, cmd); err != nil {
		return fmt.Errorf("building the daemon: %w\n%s", err, out.Bytes())
	}
	return nil
}
