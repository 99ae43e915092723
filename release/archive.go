package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// writeArchive writes the tar.gz for an architecture into the folder out and
// gives its name. All of it is in one folder, which has the name of the archive.
func writeArchive(src source, arch, binary, out string) (string, error) {
	entries, err := documents(src.root)
	if err != nil {
		return "", err
	}
	entries = slices.Insert(entries, 0, entry{mode: fs.ModeDir | 0o755}, entry{path: "consul-hds", source: binary, mode: 0o755})
	folder := fmt.Sprintf("consul-hds_%s_linux_%s", src.number(), arch)
	name := folder + ".tar.gz"
	file, err := os.Create(filepath.Join(out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(writeTar(file, src, folder, entries), file.Close())
}

// writeTar writes the entries below a folder. Neither the users nor the times of
// the files on this machine get into it.
func writeTar(w io.Writer, src source, folder string, entries []entry) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		header := &tar.Header{
			Name: folder + "/" + e.path, Mode: int64(e.mode.Perm()), ModTime: src.time,
			Uname: "root", Gname: "root", Typeflag: tar.TypeReg,
		}
		if err := addEntry(archive, header, e); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func addEntry(archive *tar.Writer, header *tar.Header, e entry) error {
	if e.mode.IsDir() {
		header.Typeflag = tar.TypeDir
		header.Name = filepath.ToSlash(filepath.Clean(header.Name)) + "/"
		return archive.WriteHeader(header)
	}
	body, err := os.ReadFile(e.source)
	if err != nil {
		return err
	}
	header.Size = int64(len(body))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(body)
	return err
}
