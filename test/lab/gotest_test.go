package lab

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// interruptible is a test that ends in its own way when it is interrupted.
const interruptible = `package interruptible

import (
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"
)

func TestInterrupt(t *testing.T) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	fmt.Println("waiting")
	select {
	case <-interrupted:
	case <-time.After(time.Minute):
		t.Fatal("nobody interrupted")
	}
	if err := os.WriteFile("ended", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
`

func TestATestThatIsInterruptedEndsInItsOwnWay(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module interruptible\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "interruptible_test.go"), []byte(interruptible), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	cmd := GoTest(ctx, root, "-count=1", "-v")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "waiting"; {
		require.NotContains(t, lines.Text(), "FAIL")
	}
	interrupt()
	require.Error(t, cmd.Wait())
	require.NoError(t, Eventually(t.Context(), 5*time.Second, func() error {
		_, err := os.Stat(filepath.Join(root, "ended"))
		return err
	}))
}
