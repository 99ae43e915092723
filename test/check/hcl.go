package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// checkHCL finds the HCL files below nomad, examples, release and any testdata that
// hclwrite would format in another way.
func checkHCL() ([]string, error) {
	var faults []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !isFormattedHCL(path) {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(src, hclwrite.Format(src)) {
			faults = append(faults, path+" is not formatted as `hclfmt` or `nomad fmt` would")
		}
		return nil
	})
	return faults, err
}

// isFormattedHCL says whether a file is HCL and must be formatted.
func isFormattedHCL(path string) bool {
	if ext := filepath.Ext(path); ext != ".hcl" && ext != ".nomad" {
		return false
	}
	dirs := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
	return dirs[0] == "nomad" || dirs[0] == "examples" || dirs[0] == "release" || slices.Contains(dirs, "testdata")
}
