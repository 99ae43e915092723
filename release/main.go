// Command release builds what is published of a commit: for each architecture an
// archive, a deb and an rpm, the binary for the image of the Dockerfile, and the
// checksums. The same commit and Go release give the same bytes, whoever builds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// architectures are those of the binaries, in Go's words.
func architectures() []string { return []string{"amd64", "arm64"} }

func main() {
	root := flag.String("root", "..", "the root of the repository")
	out := flag.String("out", "../dist", "the folder to write to; what is in it is removed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run releases the commit that is checked out, and lists what was made.
func run(ctx context.Context, root, out string) error {
	src, err := readSource(ctx, root)
	if err != nil {
		return err
	}
	made, err := release(ctx, src, out)
	if err != nil {
		return err
	}
	for _, name := range made {
		fmt.Println(filepath.Join(filepath.Base(out), name))
	}
	return nil
}

// release empties the folder out and writes all that is published of a source
// into it. It gives the names of the files, SHA256SUMS the last of them.
func release(ctx context.Context, src source, out string) ([]string, error) {
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	var made []string
	for _, arch := range architectures() {
		binary := filepath.Join(out, "linux", arch, "consul-hds") // where the Dockerfile looks
		if err := buildBinary(ctx, src, arch, binary); err != nil {
			return nil, err
		}
		archive, err := writeArchive(src, arch, binary, out)
		if err != nil {
			return nil, fmt.Errorf("writing the archive for %s: %w", arch, err)
		}
		made = append(made, archive)
		for _, format := range []string{"deb", "rpm"} {
			name, err := writePackage(src, format, arch, binary, out)
			if err != nil {
				return nil, fmt.Errorf("writing the %s for %s: %w", format, arch, err)
			}
			made = append(made, name)
		}
	}
	if err := writeChecksums(out, made); err != nil {
		return nil, fmt.Errorf("writing the checksums: %w", err)
	}
	return append(made, checksums), nil
}
