package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// value is what the lists of these tests hold.
type value struct{ A, B string }

// counted decodes values, and counts how often.
type counted int

func (c *counted) decode(_ string, text []byte) (*value, error) {
	*c++
	var v value
	return &v, json.Unmarshal(text, &v)
}

func TestWhatHasNotChangedIsNotDecodedAgain(t *testing.T) {
	var l list[value]
	var n counted
	read := func(text string) map[string]*value {
		t.Helper()
		got, err := l.read(strings.NewReader(text), n.decode)
		require.NoError(t, err)
		return got
	}
	first := read(`{"a":{"A":"1"},"b":{"A":"2"}}`)
	require.EqualValues(t, 2, n)
	again := read(`{"a":{"A":"1"},"b":{"A":"2"}}`)
	assert.EqualValues(t, 2, n)
	delete(again, "a") // the map is the caller's
	second := read(`{"a":{"A":"1"},"b":{"A":"3"}}`)
	assert.EqualValues(t, 3, n)
	assert.Same(t, first["a"], second["a"])
	assert.Equal(t, &value{A: "3"}, second["b"])
	third := read(`{ "a":{"A":"1","Unread":true},"c":{} }`)
	assert.EqualValues(t, 5, n)
	assert.Same(t, first["a"], third["a"], "what is read of it has not changed")
	assert.Equal(t, map[string]*value{"a": {A: "1"}, "c": {}}, third)
}

func TestABadAnswerLeavesTheListAsItWas(t *testing.T) {
	var l list[value]
	var n counted
	good := `{"a":{"A":"1"},"b":{}}`
	for range 2 { // before the first answer, and after it
		for _, bad := range []string{"", " ", "null", "[]", "7", `"a"`, "<html>", good[:len(good)-1], good + "x", `{"a":{"A":1},"b":{}}`, `{"a":[]}`, `{"b":{"A":"2"},"a":{"A":1}}`} {
			for range 2 { // an answer that was refused is not the last one
				_, err := l.read(strings.NewReader(bad), n.decode)
				require.Error(t, err, bad)
			}
		}
		got, err := l.read(strings.NewReader(good), n.decode)
		require.NoError(t, err)
		assert.Equal(t, map[string]*value{"a": {A: "1"}, "b": {}}, got)
	}
	assert.Equal(t, good, l.text)
}

// TestAListIsWhatJSONSays: whatever came before, a list gives what encoding/json
// makes of the newest answer.
func TestAListIsWhatJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list[value]
		var n counted
		values := map[string]value{}
		for range rapid.IntRange(1, 8).Draw(t, "answers") {
			values = maps.Clone(values)
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				id := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "", `"`, "a.b", "ü\n", "\\", "<&>\u2028"}), rapid.String()).Draw(t, "id")
				if rapid.Bool().Draw(t, "gone") {
					delete(values, id)
				} else {
					values[id] = value{rapid.String().Draw(t, "A"), rapid.SampledFrom([]string{"", `"}`, "{"}).Draw(t, "B")}
				}
			}
			text, err := json.MarshalIndent(values, "", strings.Repeat(" ", rapid.IntRange(0, 4).Draw(t, "indent")))
			require.NoError(t, err)
			var want map[string]*value
			require.NoError(t, json.Unmarshal(text, &want))
			got, err := l.read(strings.NewReader(string(text)), n.decode)
			require.NoError(t, err)
			require.Equal(t, want, got, fmt.Sprintf("%s", text))
		}
	})
}
