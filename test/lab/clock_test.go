package lab

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Go whose time.Now reads the clock in another way is noticed here, and not in an
// hour of scenarios.
func TestTheClockOfThisGoCanBeMadeToJump(t *testing.T) {
	l := newLab(t)
	root, code, err := output(t.Context(), "go", "env", "GOROOT")
	require.NoError(t, err)
	require.Zero(t, code, root)
	overlay, err := l.jumpingClock(strings.TrimSpace(root))
	require.NoError(t, err)
	file := l.Path("jumping-time.go")
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	assert.Contains(t, string(text), file)
	_, err = parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), jumps)
}
