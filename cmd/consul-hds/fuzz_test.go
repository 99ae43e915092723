package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge"
)

// FuzzShown gives the commands status and explain any answer of the daemon, which
// may hold what owners of services, apps and Envoys have written: it is shown in as
// many lines as it has things, and nothing in it steers a terminal.
func FuzzShown(f *testing.F) {
	for _, answer := range []any{
		someStatus(), bridge.Status{},
		map[string]any{"Version": "\x1b[2J", "problems": []any{map[string]string{"message": "a\nb", "source": "\r"}}},
		map[string]any{"conclusion": "\u202e", "checks": []any{map[string]any{"check_id": "\x07", "chain": []any{map[string]any{"name": "\t", "text": "\x00", "details": []string{"\u2028"}}}}}},
	} {
		b, err := json.Marshal(answer)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s bridge.Status
		if json.Unmarshal(b, &s) == nil {
			var out bytes.Buffer
			writeStatus(&out, s, false)
			checkShown(t, out.String(), linesOf(s))
		}
		var e bridge.Explanation
		if json.Unmarshal(b, &e) == nil {
			var out bytes.Buffer
			writeExplanation(&out, e, false)
			checkShown(t, out.String(), -1)
		}
	})
}

// linesOf is in how many lines a status is shown.
func linesOf(s bridge.Status) int {
	lines := 1
	for _, rows := range []int{len(s.Observers), len(s.Checks), len(s.Problems), len(s.Refused)} {
		lines += 2 + rows
		if rows > 0 {
			lines++ // the names of the columns
		}
	}
	if len(s.Problems) > 0 {
		lines-- // problems have none
	}
	if len(s.Refused) == 0 {
		lines -= 2
	}
	return lines
}

// checkShown wants text without control characters, of so many lines; a negative
// number is any.
func checkShown(t *testing.T, text string, lines int) {
	t.Helper()
	steers := strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
	require.False(t, steers, "%q", text)
	if lines >= 0 {
		require.Equal(t, lines, strings.Count(text, "\n"), "%q", text)
	}
}
