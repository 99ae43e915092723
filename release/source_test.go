package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commitTo runs git in a folder as a person without settings of their own.
func commitTo(t *testing.T, folder string) func(args ...string) {
	return func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
			"GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z")
		output(t, cmd)
	}
}

func TestTheVersionIsThatOfTheCommit(t *testing.T) {
	folder := t.TempDir()
	git := commitTo(t, folder)
	read := func() source {
		src, err := readSource(t.Context(), folder)
		require.NoError(t, err)
		return src
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	src := read()
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), src.time)
	assert.Len(t, src.commit, 12)
	assert.Equal(t, "v0.0.0-20260102030405-"+src.commit, src.version)

	git("tag", "v0.9.0")
	git("tag", "v0.10.0-rc.1")
	git("tag", "v1") // no version of Go's
	git("tag", "nightly")
	assert.Equal(t, "v0.10.0-rc.1", read().version)

	git("commit", "-q", "--allow-empty", "-m", "two")
	src = read()
	assert.Equal(t, "v0.10.0-rc.1.0.20260102030405-"+src.commit, src.version)

	git("tag", "-a", "v0.10.0", "-m", "release")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "new"), nil, 0o600))
	assert.Equal(t, "v0.10.0+dirty", read().version)
}

func TestWithoutGitThereIsNoRelease(t *testing.T) {
	_, err := readSource(t.Context(), t.TempDir())
	assert.ErrorContains(t, err, "not a git repository")
}
