package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// shown finds the code of a page: blocks, with their language, and code within
	// a line.
	shown = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$|`([^`\n]+)`")
	// called finds a command of ours at the places where a shell looks for one.
	called = regexp.MustCompile(`(?m)(?:^ *|\| |\$\(|[A-Z_]+=\S+ )consul-hds ([^\n]*)`)
)

// documented are the command lines of ours that a page shows, without the name.
// Blocks in a language are files and outputs.
func documented(page string) (out [][]string) {
	for _, code := range shown.FindAllStringSubmatch(page, -1) {
		if code[1] != "" {
			continue
		}
		for _, m := range called.FindAllStringSubmatch(code[2]+code[3], -1) {
			out = append(out, words(m[1]))
		}
	}
	return out
}

// words are those that a shell would hand on, up to what ends the command.
func words(line string) (out []string) {
	for _, w := range strings.Fields(line) {
		end := strings.IndexAny(w, `#|)&;`)
		if end == 0 || w == ">" || w == "<" {
			break
		}
		if end > 0 {
			return append(out, w[:end])
		}
		out = append(out, strings.Trim(w, `"'`))
	}
	return out
}

// TestDocumentedCommandsParse hands every command line of the documentation to
// its command, with -help behind the flags: whatever stands before it is read
// first, and nothing is done.
func TestDocumentedCommandsParse(t *testing.T) {
	lines := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		for _, args := range documented(string(page)) {
			lines++
			assert.True(t, parses(args), "%s: consul-hds %s", path, strings.Join(args, " "))
		}
		return err
	}))
	require.Greater(t, lines, 50)
}

// parses says whether there is such a command, with such flags. What stands
// behind the last flag is its value, or arguments: only two commands take any.
func parses(args []string) bool {
	if args[0] == "help" {
		return len(args) == 2
	}
	last := 0 // the command, or its last flag
	for i, a := range args {
		if strings.HasPrefix(a, "-") {
			last = i
		}
	}
	most := len(args)
	if args[0] == "validate" || args[0] == "explain" {
		most = last + 1
	}
	for i := len(args); i >= most; i-- {
		var out, err bytes.Buffer
		asked := slices.Insert(slices.Clone(args), i, "-help")
		if run(asked, environment{stdin: strings.NewReader(""), stdout: &out, stderr: &err}) == exitOK && strings.HasPrefix(out.String(), "Usage: consul-hds "+args[0]) {
			return true
		}
	}
	return false
}
