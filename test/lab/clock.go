package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// readsClock is where time.Now has read the wall clock and the monotonic one.
	readsClock = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n\t\treturn Time{uint64(nsec), sec + unixToInternal, Local}\n"
	// jumps is put before the first use of what was read: each 3 s of the monotonic
	// clock the wall clock is right, an hour ahead, an hour late, or years off.
	jumps = "\tsec += [...]int64{0, 3600, -3600, 0, 315360000, -315360000}[mono/3000000000%6]\n"
)

// JumpingDaemonBinary builds the daemon with a wall clock of its own, which jumps
// each 3 s by an hour or ten years, forth and back, as if somebody set the
// machine's. It is the daemon of the working tree, whatever LAB_DAEMON says, with
// another time.Now.
func (l *Lab) JumpingDaemonBinary(ctx context.Context) (string, error) {
	root, code, err := output(ctx, "go", "env", "GOROOT")
	if err == nil && code != 0 {
		err = errors.New(root)
	}
	if err != nil {
		return "", fmt.Errorf("looking for Go: %w", err)
	}
	overlay, err := l.jumpingClock(strings.TrimSpace(root))
	if err != nil {
		return "", fmt.Errorf("making a clock that jumps: %w", err)
	}
	binary := l.Path("consul-hds-jumping")
	return binary, l.buildDaemon(ctx, binary, "-overlay", overlay)
}

// jumpingClock writes a package time that jumps, and returns the overlay that puts
// it into the place of Go's.
func (l *Lab) jumpingClock(goRoot string) (overlay string, err error) {
	original := filepath.Join(goRoot, "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	before, after, found := strings.Cut(string(text), readsClock)
	if !found {
		return "", errors.New("time.Now of this Go does not read the clock as it did")
	}
	first, rest, _ := strings.Cut(readsClock, "\n")
	file := l.Path("jumping-time.go")
	replace, err := json.Marshal(object{"Replace": map[string]string{original: file}})
	if err != nil {
		return "", err
	}
	overlay = l.Path("jumping-time.json")
	return overlay, errors.Join(
		os.WriteFile(file, []byte(before+first+"\n"+jumps+rest+after), 0o644),
		os.WriteFile(overlay, replace, 0o644))
}
