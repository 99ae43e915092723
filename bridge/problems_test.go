package bridge

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// newTestAnnouncer is an announcer, and what counts the lines of its log that
// hold a word.
func newTestAnnouncer() (a *announcer, logged func(word string) int) {
	var text bytes.Buffer
	return newAnnouncer(logTo(&text)), func(word string) int { return strings.Count(text.String(), word) }
}

var (
	ofMeta  = probe.Problem{ServiceID: "web-1", Source: probe.SourceMeta, Message: "bad"}
	silence = probe.Problem{ServiceID: "web-1", Source: probe.SourceEnvoy, Message: "not connected"}
)

func TestAProblemThatIsOverSoonIsNotLogged(t *testing.T) {
	a, logged := newTestAnnouncer()
	for range 5 {
		a.update(at(0), []probe.Problem{ofMeta, silence})
		a.update(at(problemPatience-1), []probe.Problem{ofMeta, silence})
		a.update(at(problemPatience-1), nil)
	}
	assert.Zero(t, logged("\n"))
}

// An Envoy that comes back to a stale probe changes why nobody answers, and not that
// nobody does.
func TestAnotherWordingOfSilenceIsNoNews(t *testing.T) {
	a, logged := newTestAnnouncer()
	a.update(at(0), []probe.Problem{silence})
	a.update(at(4*time.Second), []probe.Problem{silence})
	connected := silence
	connected.Message = "asked"
	a.update(at(5*time.Second), []probe.Problem{connected})
	a.update(at(10*time.Second), []probe.Problem{connected})
	assert.Equal(t, 1, logged("checks get no answer"))
	assert.Zero(t, logged("again"))
	a.update(at(11*time.Second), nil)
	assert.Equal(t, 1, logged("checks get answers again, or are gone"))
}

func TestAProblemThatComesAndGoesIsLoggedOnceAMinute(t *testing.T) {
	a, logged := newTestAnnouncer()
	for n := range 150 { // five seconds long every ten seconds
		var now []probe.Problem
		if n%10 < 5 {
			now = []probe.Problem{ofMeta}
		}
		a.update(at(time.Duration(n)*time.Second), now)
	}
	assert.Equal(t, problemsAtOnce+2, logged("[WARN]"))
	assert.Equal(t, problemsAtOnce+2, logged("[INFO]"))
}

func TestWhatACheckInShadowModeWouldBeIsLogged(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1", "hds", "http", "hds_mode", "shadow")})
	r.says("web-1", up, at(time.Second))
	r.seen["hds:web-1"] = append(r.seen["hds:web-1"], hds.Observation{NodeID: "node-1", Stream: 2})
	r.tell(at(time.Second), "web-1")
	assert.Equal(t, 1, r.logged("[INFO]", "check would change", "check_id=hds:web-1", "service=web ", "service_id=web-1",
		"from=none to=passing", "phase=reported", "node_id=node-1 ", "mode=shadow"))
	assert.Equal(t, 1, r.logged("[INFO]"))
}
