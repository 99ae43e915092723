// Command envoys runs the end-to-end suite on each Envoy that is claimed to
// work, and prints a table. It fails if a test of any of them does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

var errFailed = errors.New("not every Envoy passed")

func main() {
	versions := flag.String("versions", strings.Join(lab.ClaimedEnvoys(), ","), "the Envoys, comma-separated")
	run := flag.String("run", "", "only the tests that match, as of go test")
	flag.Parse()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := runAll(ctx, strings.Split(*versions, ","), *run); err != nil {
		fmt.Fprintln(os.Stderr, "envoys:", err)
		os.Exit(1)
	}
}

// result is how the suite ended on one Envoy.
type result struct {
	passed, failed int
	failures       []string
	took           time.Duration
}

func runAll(ctx context.Context, versions []string, run string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ENVOY\tPASSED\tFAILED\tTIME")
	bad := false
	for _, v := range versions {
		r, err := runOn(ctx, v, run)
		if err != nil {
			return fmt.Errorf("envoy %s: %w", v, err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", v, r.passed, r.failed, r.took.Round(time.Second))
		for _, f := range r.failures {
			fmt.Fprintln(w, "\t\t"+f)
		}
		bad = bad || r.failed > 0 || r.passed == 0
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad {
		return errFailed
	}
	return nil
}

// runOn runs the suite on one Envoy.
func runOn(ctx context.Context, version, run string) (result, error) {
	binary, err := lab.EnvoyBinary(ctx, version, os.Stderr)
	if err != nil {
		return result{}, err
	}
	root, err := lab.RepoRoot()
	if err != nil {
		return result{}, err
	}
	fmt.Fprintf(os.Stderr, "running the end-to-end suite on Envoy %s\n", version)
	cmd := lab.GoTest(ctx, root, "-count=1", "-parallel=8", "-timeout=30m", "-json", "-run="+run, "./test/e2e")
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "ENVOY_BIN="+binary)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	r := count(bufio.NewScanner(out))
	r.took = time.Since(start)
	if err := cmd.Wait(); err != nil && r.failed == 0 {
		return r, err
	}
	return r, ctx.Err()
}

// count counts the top-level tests of go test -json.
func count(lines *bufio.Scanner) (r result) {
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		switch e.Action {
		case "pass":
			r.passed++
		case "fail":
			r.failed++
			r.failures = append(r.failures, e.Test)
		}
	}
	return r
}
