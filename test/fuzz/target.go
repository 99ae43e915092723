package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// target is a function that go test can fuzz.
type target struct {
	// dir is that of its package, from the root of the module.
	dir, name string
}

// String is its package and name, as config.FuzzLoad.
func (t target) String() string { return t.dir + "." + t.name }

// declaration is how a target is declared.
var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find lists the targets of the module at root, in order. Modules below it are not
// looked into.
func find(root string) (out []target, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && foreign(path, entry.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, found := range declaration.FindAllSubmatch(text, -1) {
			out = append(out, target{dir, string(found[1])})
		}
		return err
	})
	slices.SortFunc(out, func(a, b target) int { return cmp.Compare(a.String(), b.String()) })
	if err == nil && len(out) == 0 {
		err = errors.New("no target was found")
	}
	return out, err
}

// foreign says whether a directory holds no package of the module.
func foreign(path, name string) bool {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil || strings.HasPrefix(name, ".") || name == "testdata"
}

// result is what a target's run has come to.
type result struct {
	executions, corpus int
	took               time.Duration
}

// minimizing bounds the search for a smaller input that does the same: that of one
// which only is of interest costs the time of a thousand others.
const minimizing = "50x"

// run fuzzes the target for a while. A finding is an error that tells it.
func (t target) run(ctx context.Context, root string, during time.Duration) (result, error) {
	start := time.Now()
	cmd := lab.GoTest(ctx, root, "-run", "^$", "-timeout", "0",
		"-fuzz", "^"+t.name+"$", "-fuzztime", during.String(), "-fuzzminimizetime", minimizing, "./"+t.dir)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("%s: %w", t, context.Cause(ctx))
	}
	if err != nil {
		return result{}, fmt.Errorf("%s: %w\n%s", t, err, progress.ReplaceAll(out, nil))
	}
	r, err := read(out)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", t, err)
	}
	r.took = time.Since(start)
	return r, nil
}

// progress is a line that go test prints while it fuzzes.
var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: \S+, execs: (\d+) \(\d+/sec\), new interesting: \d+ \(total: (\d+)\)\n`)

// corpus is how go test tells that it still runs what it has of the time before.
var corpus = []byte("gathering baseline coverage")

// read reads the last line of progress.
func read(out []byte) (r result, err error) {
	lines := progress.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		if bytes.Contains(out, corpus) {
			return r, errors.New("its time was over before its corpus was through: give it more")
		}
		return r, fmt.Errorf("go test tells of no executions: %s", bytes.TrimSpace(out))
	}
	last := lines[len(lines)-1]
	var err1, err2 error
	r.executions, err1 = strconv.Atoi(string(last[1]))
	r.corpus, err2 = strconv.Atoi(string(last[2]))
	if err = errors.Join(err1, err2); err == nil && r.executions == 0 {
		err = errors.New("it was never executed")
	}
	return r, err
}
