package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repository is the root of the repository, from the folder of the tests.
const repository = ".."

// candidate is a release that the tests build: of the working tree, as a version
// and commit that do not change with it.
func candidate(t *testing.T, root string) source {
	t.Helper()
	root, err := filepath.Abs(root)
	require.NoError(t, err)
	return source{
		root: root, version: "v1.2.3-rc.1", commit: "0123456789ab",
		time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// copyRepository copies the working tree to another folder, with new times and
// modes, but for what is built in it.
func copyRepository(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(repository)
	require.NoError(t, err)
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, ".") || name == "bin" || name == "dist":
		case e.IsDir():
			require.NoError(t, os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(repository, name))))
		default:
			body, err := os.ReadFile(filepath.Join(repository, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(to, name), body, 0o600))
		}
	}
	return to
}

// digests are the SHA-256 of all files below a folder, by name.
func digests(t *testing.T, folder string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(filepath.Join(folder, path))
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(body))
		return err
	}))
	return sums
}

// output runs a command, which has to succeed, and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
