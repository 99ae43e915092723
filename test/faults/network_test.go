package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/test/lab"
)

// What the network may do to a status is what docs/failures.md says.
func TestANetworkThatIsSlowHurtsNothing(t *testing.T) {
	for _, b := range bads() {
		for _, l := range badLinks() {
			f := l.allows(relayed(), b)
			if b.slow {
				assert.Zero(t, f.expires, "%s, %s", l.name, b.name)
				assert.Positive(t, f.slows, "%s, %s", l.name, b.name)
				continue
			}
			assert.Zero(t, f.slows, "%s, %s", l.name, b.name)
			assert.False(t, f.fails || f.lost > 0 || b.trouble.Cut > 0 && f.older > 0, "%s, %s", l.name, b.name)
		}
	}
}

func TestRelaysLastAsLongAsTheirWorld(t *testing.T) {
	w := &world{lab: theLab}
	from, err := w.relayOf(linkProbe, "127.0.0.1:1")
	assert.NoError(t, err)
	again, err := w.relayOf(linkProbe, "127.0.0.1:1")
	assert.NoError(t, err)
	other, err := w.relayOf(linkProbe, "127.0.0.1:2")
	assert.NoError(t, err)
	assert.Equal(t, from, again, "what is registered again leads the same way")
	assert.NotEqual(t, from, other)
	assert.NoError(t, w.trouble(linkProbe, lab.Trouble{Refuse: true}))
	assert.EqualError(t, w.trouble(linkNodeDaemon, lab.Trouble{}), "there is no relay in the link node-daemon")
	assert.NoError(t, w.close())
	assert.ErrorContains(t, w.trouble(linkProbe, lab.Trouble{}), "is closed")
}

func TestAClockThatHasJumpedIsSeen(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	line := func(at time.Time) string { return at.Format("2006-01-02T15:04:05.000Z") + " [INFO]  it\n" }
	assert.NoError(t, hasJumped(line(now)+"  more\n"+line(now.AddDate(-10, 0, 0))))
	assert.EqualError(t, hasJumped(line(now)+line(now.Add(time.Minute))), "the clock has not jumped: the lines of the log are at most 1m0s apart")
}
