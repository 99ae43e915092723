package main

import (
	"io/fs"
	"path/filepath"
)

// entry is a file or a directory of an archive or a package.
type entry struct {
	path   string      // with slashes, below the folder of the archive or of the documents
	source string      // the file that it is a copy of
	mode   fs.FileMode // fs.ModeDir and the permissions
}

// documents are what is shipped beside the binary: the README and all that it
// links to, in the same places, each directory before what is in it.
func documents(root string) ([]entry, error) {
	var entries []entry
	for _, name := range []string{"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "docs", "examples", "nomad"} {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode, err := shippedMode(d)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			entries = append(entries, entry{path: filepath.ToSlash(relative), source: path, mode: mode})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// shippedMode is the mode that git keeps, whatever the umask at the checkout was.
func shippedMode(d fs.DirEntry) (fs.FileMode, error) {
	info, err := d.Info()
	switch {
	case err != nil:
		return 0, err
	case d.IsDir():
		return fs.ModeDir | 0o755, nil
	case info.Mode()&0o100 != 0:
		return 0o755, nil
	default:
		return 0o644, nil
	}
}
