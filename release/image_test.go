package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// image is what the Dockerfile makes.
type image struct {
	base       string
	labels     map[string]string
	copies     map[string]string // sources by destination
	user       string
	ports      []string
	entrypoint []string
	cmd        []string
}

// readDockerfile reads the Dockerfile as BuildKit does. There is nothing in it
// but what image can hold.
func readDockerfile(t *testing.T) image {
	t.Helper()
	file, err := os.Open(filepath.Join(repository, "Dockerfile"))
	require.NoError(t, err)
	defer file.Close()
	parsed, err := parser.Parse(file)
	require.NoError(t, err)
	stages, args, err := instructions.Parse(parsed.AST, nil)
	require.NoError(t, err)
	require.Empty(t, args)
	require.Len(t, stages, 1)
	made := image{base: stages[0].BaseName, labels: map[string]string{}, copies: map[string]string{}}
	for _, command := range stages[0].Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				made.labels[label.Key] = strings.Trim(label.Value, `"`)
			}
		case *instructions.CopyCommand:
			require.Len(t, c.SourcePaths, 1)
			require.Empty(t, c.From)
			made.copies[c.DestPath] = c.SourcePaths[0]
		case *instructions.UserCommand:
			made.user = c.User
		case *instructions.ExposeCommand:
			made.ports = c.Ports
		case *instructions.EntrypointCommand:
			require.False(t, c.PrependShell, "there is no shell")
			made.entrypoint = c.CmdLine
		case *instructions.CmdCommand:
			require.False(t, c.PrependShell, "there is no shell")
			made.cmd = c.CmdLine
		default:
			t.Errorf("%s: not known to this test", command.Name())
		}
	}
	return made
}

func testImage(t *testing.T, src source, out string) {
	made := readDockerfile(t)
	assert.Equal(t, "scratch", made.base)
	assert.Regexp(t, `^[1-9][0-9]*:[1-9][0-9]*$`, made.user, "numbers, and not root's")
	assert.Equal(t, []string{"8512"}, made.ports)
	assert.Equal(t, []string{"/consul-hds"}, made.entrypoint)
	assert.Equal(t, []string{"agent", "-config-dir", "/etc/consul-hds.d"}, made.cmd)
	assert.Equal(t, "MPL-2.0", made.labels["org.opencontainers.image.licenses"])
	for _, name := range []string{"title", "description", "url", "source", "documentation", "version", "revision"} {
		assert.NotEmpty(t, made.labels["org.opencontainers.image."+name], name)
	}

	assert.Contains(t, made.copies, "/consul-hds")
	assert.Contains(t, made.copies, "/etc/consul-hds.d/consul-hds.hcl")
	for _, arch := range architectures() {
		for _, from := range made.copies {
			path := filepath.Join(src.root, from)
			if inDist, ok := strings.CutPrefix(from, "dist/"); ok {
				path = filepath.Join(out, strings.ReplaceAll(inDist, "${TARGETPLATFORM}", "linux/"+arch))
			}
			assert.FileExists(t, path)
		}
	}
}
