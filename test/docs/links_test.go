// Package docs reads the documentation as its readers do: it follows the links,
// and types what it is told to type.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

const root = "../.."

// pages are all pages of Markdown, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		out[name] = string(text)
		return err
	}))
	return out
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// span is code in a line, whose text links and headings may have.
	span    = regexp.MustCompile("`[^`\n]*`")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
)

// anchors are the ids that GitHub gives to the headings of a page.
func anchors(page string) []string {
	var out []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		id := anchor(m[1])
		seen[id]++
		if n := seen[id]; n > 1 {
			id = fmt.Sprintf("%s-%d", id, n-1)
		}
		out = append(out, id)
	}
	return out
}

func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	page := "# `consul` is, what it is?\n\n```\n# no heading\n```\n\n## A_b-c\n\n## A_b-c\n"
	assert.Equal(t, []string{"consul-is-what-it-is", "a_b-c", "a_b-c-1"}, anchors(page))
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	require.Greater(t, len(all), 15)
	links := 0
	for name, page := range all {
		prose := span.ReplaceAllString(fenced.ReplaceAllString(page, ""), "")
		for _, m := range linked.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			assert.NoError(t, follow(all, name, m[1]), "%s links to %s", name, m[1])
		}
	}
	require.Greater(t, links, 100)
}

// follow says why a link of a page leads nowhere.
func follow(all map[string]string, from, link string) error {
	target, id, _ := strings.Cut(link, "#")
	path := from
	if target != "" {
		path = filepath.Join(filepath.Dir(from), target)
	}
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		return err
	}
	if id != "" && !slices.Contains(anchors(all[path]), id) {
		return fmt.Errorf("%s has no heading %q", path, id)
	}
	return nil
}

// Every page of the folder docs is reached from the README.
func TestTheREADMENamesEveryPage(t *testing.T) {
	all := pages(t)
	for name := range all {
		if filepath.Dir(name) == "docs" {
			assert.True(t, strings.Contains(all["README.md"], "("+name+")"), "the README does not name %s", name)
		}
	}
}

// The versions that are said to be tested are those that the tests run on.
func TestTheTestedVersions(t *testing.T) {
	all := pages(t)
	for _, name := range []string{"README.md", "docs/limits.md"} {
		text := strings.Join(strings.Fields(all[name]), " ")
		envoys := lab.ClaimedEnvoys()
		last := len(envoys) - 1
		want := fmt.Sprintf("ith Consul %s and Envoy %s and %s", lab.DefaultConsulVersion, strings.Join(envoys[:last], ", "), envoys[last])
		assert.True(t, strings.Contains(text, want), "%s does not say: w%s", name, want)
	}
}
