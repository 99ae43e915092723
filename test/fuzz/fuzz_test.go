package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// module makes a module with a target that finds, or does not find, what it looks
// for at once.
func module(t *testing.T, body string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module example.com/x\n\ngo 1.26\n",
		"a/a_test.go":          "package a\n\nimport \"testing\"\n\nfunc FuzzOne(f *testing.F) {\n\tf.Add(\"seed\")\n\tf.Fuzz(func(t *testing.T, s string) {" + body + "})\n}\n",
		"a/b/b_test.go":        "package b\n\nimport \"testing\"\n\nfunc FuzzTwo(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }\n",
		"a/testdata/x_test.go": "package x\n\nfunc FuzzNot(f *testing.F) {}\n",
		"other/go.mod":         "module example.com/y\n",
		"other/x_test.go":      "package x\n\nfunc FuzzNot(f *testing.F) {}\n",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestEachTargetIsRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, all(t.Context(), &out, module(t, ""), "", 3*time.Second))
	assert.Regexp(t, `(?m)^a\.FuzzOne +[1-9]\d* `, out.String())
	assert.Regexp(t, `(?m)^a/b\.FuzzTwo +[1-9]\d* `, out.String())
	assert.Regexp(t, `2 targets, [1-9]\d* executions, no finding`, out.String())
}

func TestAFindingIsToldAndEndsTheRun(t *testing.T) {
	var out strings.Builder
	err := all(t.Context(), &out, module(t, `if s != "seed" { t.Fatal("found it") }`), "", 10*time.Second)
	assert.ErrorContains(t, err, "a.FuzzOne")
	assert.ErrorContains(t, err, "found it")
	assert.ErrorContains(t, err, "testdata/fuzz/FuzzOne/")
	assert.NotContains(t, out.String(), "FuzzTwo")
}

func TestTargetsAreChosenByName(t *testing.T) {
	list := []target{{"a", "FuzzOne"}, {"b", "FuzzOne"}, {"b", "FuzzTwo"}}
	for only, want := range map[string][]target{"": list, "FuzzOne": list[:2], "b.FuzzOne,FuzzTwo": list[1:]} {
		got, err := choose(list, only)
		require.NoError(t, err)
		assert.Equal(t, want, got, only)
	}
	_, err := choose(list, "FuzzOne,FuzzThree")
	assert.ErrorContains(t, err, `"FuzzThree"`)
}

func TestWhatGoTestSaysIsRead(t *testing.T) {
	r, err := read([]byte("fuzz: elapsed: 0s, execs: 1 (0/sec), new interesting: 0 (total: 2)\nfuzz: elapsed: 1m3s, execs: 41791 (3/sec), new interesting: 5 (total: 17)\nPASS\n"))
	require.NoError(t, err)
	assert.Equal(t, result{executions: 41791, corpus: 17}, r)
	for _, text := range []string{"", "PASS\n", "fuzz: elapsed: 3s, execs: 0 (0/sec), new interesting: 0 (total: 2)\n"} {
		_, err := read([]byte(text))
		assert.Error(t, err, text)
	}
	_, err = read([]byte("fuzz: elapsed: 0s, gathering baseline coverage: 0/210 completed\nfuzz: elapsed: 5s, gathering baseline coverage: 146/210 completed\nPASS\n"))
	assert.ErrorContains(t, err, "before its corpus was through: give it more")
}

func TestARunThatIsInterruptedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	err := all(ctx, io.Discard, module(t, ""), "FuzzOne", time.Minute)
	assert.EqualError(t, err, "a.FuzzOne: enough")
}

// Every decoder of what others say has a target.
func TestEachDecoderHasATarget(t *testing.T) {
	root, err := lab.RepoRoot()
	require.NoError(t, err)
	targets, err := find(root)
	require.NoError(t, err)
	dirs := map[string]bool{}
	for _, found := range targets {
		dirs[found.dir] = true
	}
	for _, dir := range []string{"bootstrap", "bridge/admin", "bridge/catalog", "bridge/hds", "bridge/probe", "config"} {
		assert.True(t, dirs[dir], dir)
	}
}
