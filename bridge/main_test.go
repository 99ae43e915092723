package bridge

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// lockDirEnv makes the test binary be another daemon that holds a lock.
const lockDirEnv = "CONSUL_HDS_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockDirEnv); dir != "" {
		holdLock(dir)
		return
	}
	// What make test has the time for, and always the same; -rapid.checks, RAPID_CHECKS and
	// -rapid.seed (0 is another one each time) say otherwise.
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := errors.Join(flag.Set("rapid.checks", "25"), flag.Set("rapid.seed", "1")); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// holdLock takes the lock of a directory, says how that went, and holds it until
// standard input ends.
func holdLock(dir string) {
	l, err := takeLock(dir)
	said := fmt.Sprint("taken: ", err)
	if err == nil && l.unsigned != nil {
		said += fmt.Sprint(", unsigned: ", l.unsigned)
	}
	fmt.Println(said)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
