package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checksums is the name of the file with the checksums, as `sha256sum -c` reads
// it.
const checksums = "SHA256SUMS"

// writeChecksums writes the checksums of files in a folder, in order of names.
func writeChecksums(folder string, names []string) error {
	var lines strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		body, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(body), name)
	}
	return os.WriteFile(filepath.Join(folder, checksums), []byte(lines.String()), 0o644)
}
