package lab

import (
	"context"
	"fmt"
	"os"
)

// RunTests runs the tests of a package, a *testing.M, in one lab for all of them,
// which keep is given first, and returns what to exit with. A test run that is
// interrupted, or whose parent has died, ends its lab too.
func RunTests(tests interface{ Run() int }, keep func(*Lab)) (code int) {
	ctx, cancel := SignalContext(context.Background())
	defer cancel()
	l, err := New(ctx, Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	keep(l)
	code = tests.Run()
	if err := l.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
