package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(of []scenario) (out []string) {
	for _, s := range of {
		out = append(out, s.name)
	}
	return out
}

func TestScenariosAreChosenByNameAndByGroup(t *testing.T) {
	all := []scenario{{name: "a", group: "one"}, {name: "b", group: "one", short: true}, {name: "c", group: "two"}}
	for only, want := range map[string][]string{"": {"a", "b", "c"}, "c,a": {"c", "a"}, "one": {"a", "b"}} {
		chosen, err := choose(all, only)
		require.NoError(t, err)
		assert.Equal(t, want, names(chosen), only)
	}
	_, err := choose(all, "a,d")
	assert.EqualError(t, err, `there is no scenario and no group "d"; -list lists them`)
	assert.Equal(t, []string{"b"}, names(shortOnes(all)))
}

func TestScenariosHaveNamesOfTheirOwnAndShareWorlds(t *testing.T) {
	seen, settings := map[string]bool{}, []string{}
	for _, s := range scenarios(1) {
		assert.False(t, seen[s.name], "%s is there twice", s.name)
		seen[s.name] = true
		assert.NotEmpty(t, s.group+s.what+s.long, s.name)
		if n := len(settings); n == 0 || settings[n-1] != s.setting.name {
			settings = append(settings, s.setting.name)
		}
		assert.Equal(t, !slices.Contains([]string{usual().name, relayedUsual().name, patient().name}, s.setting.name), s.setting.conf.Checks.TTL == quick().conf.Checks.TTL, "%s", s.name)
	}
	assert.Equal(t, []string{"three-servers", "relayed-defaults", "relayed", "quick", "patient", "defaults", "clock", "acls"}, settings)
	var list strings.Builder
	require.NoError(t, writeList(&list, scenarios(1)))
	assert.Equal(t, 1+len(seen), strings.Count(list.String(), "\n"), "a line of headings, and one for each")
}

func TestASeedIsAnOrder(t *testing.T) {
	one, two := plan(7, 5), plan(7, 5)
	assert.Equal(t, one, two)
	assert.NotEqual(t, one, plan(8, 5))
	for _, r := range one {
		assert.Len(t, r.down, len(parts()))
		broken := map[int]bool{}
		for _, s := range r.down {
			broken[s.part] = true
		}
		for _, s := range r.up {
			assert.True(t, broken[s.part], "%s is mended twice", parts()[s.part].name)
			delete(broken, s.part)
		}
		assert.Empty(t, broken, "all are mended")
	}
}

// The numbers are those of docs/failures.md, with slack.
func TestTheBoundsAreThoseOfTheDocs(t *testing.T) {
	b := usual().bounds()
	assert.Equal(t, 2800*time.Millisecond+slack, b.detect)
	assert.Equal(t, 1750*time.Millisecond+slack, b.recover)
	assert.Equal(t, 80*time.Second+slack, b.stale)
	assert.Equal(t, 3050*time.Millisecond, usual().grace())
	assert.Equal(t, 40*time.Second, usual().leftOfTTL())
	assert.Equal(t, 2*time.Second+slack, usual().restoration())
}

func TestARowSaysWhatWasSeenAndAllowed(t *testing.T) {
	r := inventedRecord()
	r.by(-1, 30, 30.5)
	r.wasAway(dns)
	bad := result{scenario: scenario{name: "it", long: "5s"}, verdict: r.judged(), record: r.record}
	assert.Equal(t, []string{"it", "5s", "1800", "1", "0.5s of 1.0s", "1.0s of 2.0s", "0.0s of 0.0s", "0, 0.0s of 3.0s",
		"5, 0.4s of 0.0s", "1 VIOLATIONS"}, bad.row())
	well := inventedRecord()
	good := result{scenario: scenario{name: "that"}, verdict: well.judged(), record: well.record}
	assert.NoError(t, good.fault())
	broken := good
	broken.err = errors.New("it did not come back")
	assert.EqualError(t, broken.fault(), "it did not come back")
	assert.Contains(t, broken.row(), "BROKEN, 0 VIOLATIONS")
	assert.Contains(t, good.row(), "as allowed")
	good.notes = []string{"7 edits", "81 MB"}
	var rows strings.Builder
	require.NoError(t, writeRows(&rows, []result{bad, good}))
	assert.True(t, strings.HasSuffix(rows.String(), "as allowed    \nthat: 7 edits\nthat: 81 MB\n"), rows.String())
	var out strings.Builder
	writeSums(&out, []result{bad, good})
	assert.Equal(t, "2 scenarios, 3600 samples (1 could not be taken), 1 violations\n"+
		"longest wrong: false critical 0.5s, false passing 1.0s, missing 0.0s, bad traffic 0.0s, failed 0.4s\n", out.String())
}
