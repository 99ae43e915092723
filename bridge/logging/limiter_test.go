package logging

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// rig is a limiter with the log that it writes.
type rig struct {
	*Limiter
	text bytes.Buffer
}

func newRig(burst int, level hclog.Level) *rig {
	r := &rig{}
	r.Limiter = NewLimiter(hclog.New(&hclog.LoggerOptions{Output: &r.text, Level: level, DisableTime: true}), burst)
	return r
}

// lines are those logged since the last call.
func (r *rig) lines() []string {
	out := strings.Split(strings.TrimSuffix(r.text.String(), "\n"), "\n")
	r.text.Reset()
	if out[0] == "" {
		return nil
	}
	return out
}

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func TestAFaultIsLoggedOnceAMinuteWithACount(t *testing.T) {
	r := newRig(1, hclog.Info)
	for i := range 150 {
		r.Log(at(time.Duration(i)*time.Second), hclog.Warn, "read", "cannot read", "try", i)
	}
	assert.Equal(t, []string{"[WARN]  cannot read: try=0", "[WARN]  cannot read: try=60 count=60", "[WARN]  cannot read: try=120 count=60"}, r.lines())
}

func TestKeysAreLimitedApart(t *testing.T) {
	r := newRig(1, hclog.Info)
	r.Log(at(0), hclog.Warn, "a", "a")
	r.Log(at(0), hclog.Info, "b", "b")
	r.Log(at(1), hclog.Warn, "a", "a")
	assert.Equal(t, []string{"[WARN]  a", "[INFO]  b"}, r.lines())
}

func TestTurnsAreLoggedAtOnceUntilTheyAreALoop(t *testing.T) {
	r := newRig(3, hclog.Info)
	for i := range 5 {
		r.Log(at(time.Duration(i)*time.Second), hclog.Info, "n1", "opened", "stream", i)
	}
	assert.Equal(t, []string{"[INFO]  opened: stream=0", "[INFO]  opened: stream=1", "[INFO]  opened: stream=2"}, r.lines())
	r.Flush(at(59 * time.Second))
	assert.Empty(t, r.lines())
	r.Flush(at(time.Minute))
	assert.Equal(t, []string{"[INFO]  opened: stream=4 count=2"}, r.lines(), "nothing goes untold")
	r.Log(at(61*time.Second), hclog.Info, "n1", "opened", "stream", 5)
	assert.Empty(t, r.lines(), "a loop that goes on has one line a minute")
	r.Flush(at(2 * time.Minute))
	assert.Equal(t, []string{"[INFO]  opened: stream=5"}, r.lines())
	r.Flush(at(3 * time.Minute))
	for i := range 3 {
		r.Log(at(181*time.Second), hclog.Info, "n1", "opened", "stream", i)
	}
	assert.Len(t, r.lines(), 3, "a loop that has ended is forgotten")
}

func TestWhatIsHeldBackIsLoggedAtDebug(t *testing.T) {
	r := newRig(1, hclog.Debug)
	r.Log(at(0), hclog.Warn, "a", "no", "n", 1)
	r.Log(at(1), hclog.Warn, "a", "no", "n", 2)
	assert.Equal(t, []string{"[WARN]  no: n=1", "[DEBUG] no: n=2"}, r.lines())
}

func TestAnOldFaultIsNotCountedWithANewOne(t *testing.T) {
	r := newRig(1, hclog.Info)
	r.Log(at(0), hclog.Warn, "a", "no")
	r.Log(at(time.Second), hclog.Warn, "a", "no")
	r.lines()
	r.Log(at(time.Hour), hclog.Warn, "a", "no")
	assert.Equal(t, []string{"[WARN]  no"}, r.lines())
}

func TestStrangersFillNeitherMemoryNorLog(t *testing.T) {
	r := newRig(1, hclog.Info)
	for i := range 10 * mostKeys {
		r.Log(at(0), hclog.Info, fmt.Sprint("stranger ", i), "opened")
	}
	assert.Len(t, r.byKey, mostKeys+1)
	assert.Len(t, r.lines(), mostKeys+1)
	r.Flush(at(time.Minute))
	r.Flush(at(2 * time.Minute))
	assert.Empty(t, r.byKey)
}

func TestKnownLeavesOutWhatIsEmpty(t *testing.T) {
	type phase string
	assert.Equal(t, []any{"b", 1, "d", "x"}, Known("a", "", "b", 1, "c", phase(""), "d", "x"))
	assert.Empty(t, Known())
}

func TestRunFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(1, hclog.Info)
		r.Log(time.Now(), hclog.Warn, "a", "no")
		r.Log(time.Now(), hclog.Warn, "a", "no")
		go r.Run(t.Context())
		time.Sleep(75 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"[WARN]  no", "[WARN]  no"}, r.lines())
	})
}
