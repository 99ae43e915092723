package lab

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// closing is how long a test binary has to end what it started.
const closing = 30 * time.Second

// GoTest is go test with these arguments, at the root of a module. When ctx
// ends it is interrupted together with the test binaries, which go test itself would
// leave behind, and these end what they started. It dies with this process.
func GoTest(ctx context.Context, root string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = closing
	return cmd
}
