package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	"github.com/sassoftware/go-rpmutils"
	"github.com/stretchr/testify/require"
)

// item is a file or directory of an archive or a package.
type item struct {
	body         string
	mode         fs.FileMode
	owner, group string
	time         time.Time
	flags        int // an rpm's
}

// readTar reads a tar.gz: its items by name, without the ./ before and the / after.
func readTar(t *testing.T, r io.Reader) map[string]item {
	t.Helper()
	unzipped, err := gzip.NewReader(r)
	require.NoError(t, err)
	items := map[string]item{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return items
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid, header.Name)
		require.Zero(t, header.Gid, header.Name)
		body, err := io.ReadAll(archive)
		require.NoError(t, err)
		items[strings.Trim(strings.TrimPrefix(header.Name, "."), "/")] = item{
			body: string(body), mode: header.FileInfo().Mode(),
			owner: header.Uname, group: header.Gname, time: header.ModTime.UTC(),
		}
	}
}

// readDeb reads a deb: what it installs, and the files that dpkg reads.
func readDeb(t *testing.T, path string) (installed, control map[string]item) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	parts := ar.NewReader(file)
	header, err := parts.Next()
	require.NoError(t, err)
	require.Equal(t, "debian-binary", header.Name)
	header, err = parts.Next()
	require.NoError(t, err)
	require.Equal(t, "control.tar.gz", header.Name)
	control = readTar(t, parts)
	header, err = parts.Next()
	require.NoError(t, err)
	require.Equal(t, "data.tar.gz", header.Name)
	return readTar(t, parts), control
}

// readRPM reads an rpm: what it installs, and its header.
func readRPM(t *testing.T, path string) (map[string]item, *rpmutils.RpmHeader) {
	t.Helper()
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	pkg, err := rpmutils.ReadRpm(bytes.NewReader(body))
	require.NoError(t, err)
	payload, err := pkg.PayloadReaderExtended()
	require.NoError(t, err)
	items := map[string]item{}
	for {
		info, err := payload.Next()
		if errors.Is(err, io.EOF) {
			return items, pkg.Header
		}
		require.NoError(t, err)
		body, err := io.ReadAll(payload)
		require.NoError(t, err)
		items[strings.Trim(info.Name(), "/")] = item{
			body: string(body), mode: fs.FileMode(info.Mode()).Perm(), flags: info.Flags(),
			owner: info.UserName(), group: info.GroupName(), time: time.Unix(int64(info.Mtime()), 0).UTC(),
		}
	}
}
