package probe

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reference are the rows of the table of docs/meta.md, by key: probes, values and
// default.
func reference(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/meta.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(hds\\w*)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		assert.NotContains(t, rows, m[1], "two rows")
		rows[m[1]] = strings.Split(m[2], " | ")
		require.Len(t, rows[m[1]], 3, m[1])
	}
	return rows
}

func TestTheReferenceHasEveryMetaKey(t *testing.T) {
	rows := reference(t)
	assert.ElementsMatch(t, append(slices.Collect(maps.Keys(metaKeys)), metaKind), slices.Collect(maps.Keys(rows)))
	for key, row := range rows {
		want := "all"
		if kind, ok := kindKeys[key]; ok {
			want = fmt.Sprintf("`%s`", kind)
		}
		assert.Equal(t, want, row[0], "the probes of %s", key)
	}
}

// wordsOf are the values that a cell names as code.
func wordsOf(cell string) (out []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// The values are held against what the code takes, and the lists also against
// what it has.
func TestTheReferenceHasTheValues(t *testing.T) {
	rows := reference(t)
	for key, want := range map[string][]string{
		metaKind:       {string(HTTP), string(TCP), string(GRPC), string(Off)},
		"hds_method":   methods,
		"hds_observer": {string(Auto), string(Sidecar), string(Node)},
		"hds_mode":     {string(Enforce), string(Shadow)},
		"hds_tls":      {string(On), string(Not)}, "hds_tls_skip_verify": {string(On), string(Not)},
		"hds_port": nil, "hds_interval": nil, "hds_timeout": nil, "hds_healthy_threshold": nil, "hds_unhealthy_threshold": nil,
	} {
		words := wordsOf(rows[key][1])
		require.NotEmpty(t, words, key)
		for _, w := range want {
			assert.Contains(t, words, w, key)
		}
		if want == nil { // the least and the most
			assert.Len(t, words, 2, key)
			want = words
		}
		for _, w := range want {
			m := readMeta(map[string]string{metaKind: string(HTTP), key: w})
			assert.Empty(t, m.errs, "%s = %s", key, w)
		}
	}
}

// Defaults of the config are compared in the package config.
func TestTheReferenceHasTheDefaults(t *testing.T) {
	for key, row := range reference(t) {
		words := wordsOf(row[2])
		if len(words) != 1 || strings.HasSuffix(row[2], "(config)") || strings.Contains(row[2], "target") {
			continue
		}
		m := readMeta(map[string]string{metaKind: string(HTTP), key: words[0]})
		require.Empty(t, m.errs, key)
		assert.Equal(t, complete(Settings{Kind: HTTP}, Settings{}), complete(m.settings, Settings{}), "the default of %s", key)
	}
}
