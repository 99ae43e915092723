package checkstest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/health"
)

const (
	// brief is a TTL that a test waits for. It is long enough for a few requests
	// on a busy machine.
	brief = 2 * time.Second
	// often is how often a check is renewed that must not run out.
	often = brief / 20
	// patience is how long an expected change may take on a busy machine.
	patience = 20 * time.Second
	// expired is how the agent's own output begins when a TTL has run out.
	expired = "TTL expired"
)

// expires: the first TTL is one that was shortened. The agent adds what was said
// last, unless the check was registered again since.
func expires(tr *trial) {
	tr.register(long, health.Critical)
	tr.update(health.Passing, "up")
	tr.register(brief, health.Passing)
	tr.shows(health.Passing, "up")
	assert.Equal(tr.t, expired, tr.expire())
	tr.update(health.Passing, "up again")
	tr.shows(health.Passing, "up again")
	text := tr.expire()
	assert.Contains(tr.t, text, "up again")
	tr.register(long, health.Passing)
	tr.shows(health.Critical, text)
}

// expire waits until the TTL has run out, and returns what the agent says then.
func (tr *trial) expire() string {
	tr.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(often) {
		c := tr.check()
		require.NotNil(tr.t, c)
		if strings.HasPrefix(c.Output, expired) {
			assert.Equal(tr.t, string(health.Critical), c.Status)
			return c.Output
		}
	}
	require.FailNow(tr.t, "the TTL does not run out", "last: %+v", tr.check())
	return ""
}

func getsLonger(tr *trial) {
	tr.register(brief, health.Critical)
	tr.update(health.Passing, "up")
	tr.register(long, health.Passing)
	tr.outlives(func() {})
}

func isRenewedByUpdates(tr *trial) {
	tr.register(brief, health.Critical)
	tr.update(health.Passing, "up")
	tr.outlives(func() { tr.update(health.Passing, "up") })
}

// isRenewedByRegistrations: that is why the manager counts the TTL of a check
// that is not alive, and had to be registered again.
func isRenewedByRegistrations(tr *trial) {
	tr.register(brief, health.Critical)
	tr.update(health.Passing, "up")
	tr.outlives(func() { tr.register(brief, health.Critical) })
}

// outlives fails the test unless the check passes for longer than a brief TTL, in
// which renew is called often.
func (tr *trial) outlives(renew func()) {
	tr.t.Helper()
	for end := time.Now().Add(brief * 3 / 2); time.Now().Before(end); time.Sleep(often) {
		tr.shows(health.Passing, "up")
		renew()
	}
}
