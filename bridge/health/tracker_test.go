package health

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

var policy = Policy{
	ReportInterval: 500 * time.Millisecond, StaleAfter: 10 * time.Second, AdoptTimeout: 20 * time.Second,
	OnStale: Expire, InitialStatus: Critical,
}

// web is an HTTP probe of 1 s each, thresholds 1 and 2: its grace is 3.05 s, six
// reports.
var web = Definition{
	Subject: "http GET http://127.0.0.1:80/", Grace: 3050 * time.Millisecond, Recovery: 2050 * time.Millisecond,
	Expects: func(code int) bool { return code >= 200 && code <= 299 }, Warns: true,
}

// says is an observation of the newest stream of observer a.
func says(a Answer, reports int, now time.Time) Observation {
	return Observation{Observer: "a", Stream: 1, Answer: a, Reports: reports, Quiet: 6, At: now}
}

func good(o Observation) Observation { o.WasHealthy = true; return o }

func TestBadNewsWaitsForTheFirstProbeToEnd(t *testing.T) {
	for _, a := range []Answer{Unhealthy, Timeout} {
		assert.False(t, says(a, 0, t0).Counts(), "the first echo is report 0")
		assert.False(t, says(a, 6, t0).Counts(), "6 × 500 ms is within 3.05 s")
		assert.True(t, says(a, 7, t0).Counts(), "7 × 500 ms is past 3.05 s")
		assert.True(t, good(says(a, 0, t0)).Counts(), "an endpoint that was healthy is known")
	}
	assert.True(t, says(Healthy, 0, t0).Counts(), "good news counts at once")
	assert.False(t, good(says(NoAnswer, 99, t0)).Counts(), "no answer never counts")
}

func TestAnInstanceThatAppearsIsCriticalUntilItAnswers(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	tr.Appear(t0, "a node Envoy")
	v, next := tr.Evaluate(t0, nil)
	assert.Equal(t, Verdict{Phase: Pending, Status: Critical, Since: t0, Alive: true,
		Output: "http GET http://127.0.0.1:80/: awaiting the first answer of a node Envoy"}, v)
	assert.Equal(t, at(20*time.Second), next, "the adoption deadline")

	v, _ = tr.Evaluate(at(time.Second), []Observation{says(Unhealthy, 1, at(time.Second))})
	assert.Equal(t, Pending, v.Phase, "not yet probed is no answer")

	v, _ = tr.Evaluate(at(2*time.Second), []Observation{good(says(Healthy, 3, at(2*time.Second)))})
	assert.Equal(t, Verdict{Phase: Reported, Status: Passing, Since: at(2 * time.Second), Alive: true,
		Output: "http GET http://127.0.0.1:80/: healthy, says Envoy a", Observer: "a"}, v)
}

func TestAnInstanceThatWasThereHasNoCheckBeforeItsFirstAnswer(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	v, _ := tr.Evaluate(t0, []Observation{says(Unhealthy, 0, t0)})
	assert.Equal(t, Verdict{Phase: Pending}, v)
	v, _ = tr.Evaluate(at(25*time.Second), nil)
	assert.Equal(t, Verdict{Phase: Pending, Overdue: true}, v, "no answer in time is told, and makes no check")
	v, _ = tr.Evaluate(at(30*time.Second), []Observation{says(Unhealthy, 7, at(30*time.Second))})
	assert.Equal(t, Critical, v.Status)
	assert.Equal(t, Reported, v.Phase)
}

func TestInitialStatusNoneMakesNoCheck(t *testing.T) {
	p := policy
	p.InitialStatus = None
	tr := NewTracker(web, p, t0)
	tr.Appear(t0, "a node Envoy")
	v, _ := tr.Evaluate(t0, nil)
	assert.Equal(t, None, v.Status)
}

func TestAnAdoptedCheckStandsUntilTheFirstAnswer(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	tr.Adopt(t0, Passing, "as found")
	tr.Adopt(t0, Critical, "too late")
	v, next := tr.Evaluate(at(time.Second), []Observation{says(Unhealthy, 1, at(time.Second))})
	assert.Equal(t, Verdict{Phase: Adopted, Status: Passing, Output: "as found", Since: t0, Alive: true}, v)
	assert.Equal(t, at(20*time.Second), next)
	v, _ = tr.Evaluate(at(5*time.Second), []Observation{says(Unhealthy, 8, at(5*time.Second))})
	assert.Equal(t, Critical, v.Status)
	assert.Equal(t, "http GET http://127.0.0.1:80/: unhealthy, says Envoy a", v.Output)
}

func TestTheAdoptionDeadlineLeavesRoomForALongGrace(t *testing.T) {
	slow := web
	slow.Grace = time.Minute
	tr := NewTracker(slow, policy, t0)
	tr.Adopt(t0, Passing, "as found")
	_, next := tr.Evaluate(t0, nil)
	assert.Equal(t, at(61*time.Second), next, "the grace and two reports")
}

func TestNewStreamsDoNotMoveTheAdoptionDeadline(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	tr.Adopt(t0, Passing, "as found")
	for s := range 19 {
		now := at(time.Duration(s) * time.Second)
		v, _ := tr.Evaluate(now, []Observation{{Observer: "a", Stream: uint64(s + 1)}})
		require.Equal(t, Adopted, v.Phase)
		require.True(t, v.Alive)
	}
	v, _ := tr.Evaluate(at(20*time.Second), []Observation{{Observer: "a", Stream: 20}})
	assert.Equal(t, Stale, v.Phase)
	assert.False(t, v.Alive, "a crash-looping Envoy cannot keep a status alive")
	v, _ = tr.Evaluate(at(21*time.Second), []Observation{{Observer: "a", Stream: 21}})
	assert.Equal(t, Stale, v.Phase, "a new stream does not revive it")
	v, _ = tr.Evaluate(at(22*time.Second), []Observation{good(Observation{Observer: "a", Stream: 21, Answer: Healthy, At: at(22 * time.Second)})})
	assert.Equal(t, Reported, v.Phase, "an answer does")
	assert.True(t, v.Alive)
}

func reported(t *testing.T, p Policy) *Tracker {
	tr := NewTracker(web, p, t0)
	v, next := tr.Evaluate(t0, []Observation{good(says(Healthy, 0, t0))})
	require.Equal(t, Passing, v.Status)
	require.Equal(t, at(p.StaleAfter/10), next)
	return tr
}

func TestSilenceIsCountedFromTheLastReportAlthoughItWasNoNews(t *testing.T) {
	tr := reported(t, policy)
	next := at(time.Second)
	for next.Before(at(35 * time.Second)) {
		_, next = tr.Evaluate(next, []Observation{good(says(Healthy, 9, next))})
	}
	v, next := tr.Evaluate(at(35*time.Second), nil)
	assert.Equal(t, Reported, v.Phase)
	assert.Equal(t, at(44*time.Second), next, "the stream has ended at 35 s, and was looked at last at 34 s")
}

func TestSilenceMakesStale(t *testing.T) {
	for _, c := range []struct {
		on     OnStale
		status Status
		alive  bool
	}{{Expire, Passing, false}, {TurnCritical, Critical, true}, {Keep, Passing, true}} {
		p := policy
		p.OnStale = c.on
		tr := reported(t, p)
		v, _ := tr.Evaluate(at(9999*time.Millisecond), nil)
		assert.Equal(t, Reported, v.Phase, c.on)
		v, next := tr.Evaluate(at(10*time.Second), nil)
		assert.Equal(t, Stale, v.Phase, c.on)
		assert.Equal(t, c.status, v.Status, c.on)
		assert.Equal(t, c.alive, v.Alive, c.on)
		assert.Equal(t, at(10*time.Second+policy.ReportInterval), next, "it is looked at again: an answer may come that is no news")
	}
}

// What is stale is so since its answer was too old, whoever looked when, and whoever
// has come since.
func TestStaleIsSinceTheAnswerWasTooOld(t *testing.T) {
	tr := reported(t, policy)
	since := at(policy.StaleAfter)
	v, _ := tr.Evaluate(since.Add(time.Second), nil)
	assert.Equal(t, since, v.Lapsed)
	silent := []Observation{{Observer: "n1", Stream: 2}}
	later := since.Add(time.Hour)
	v, _ = tr.Evaluate(later, silent)
	assert.Equal(t, Stale, v.Phase)
	assert.Equal(t, since, v.Lapsed)
	assert.Contains(t, tr.Explain(later, silent), "stale since "+clock(since)+":")
	v, _ = tr.Evaluate(later, []Observation{says(Healthy, 9, later)})
	assert.True(t, v.Alive)
	assert.Zero(t, v.Lapsed)
}

func TestAnOpenStreamThatSaysNothingNewIsNoAnswer(t *testing.T) {
	tr := reported(t, policy)
	v, _ := tr.Evaluate(at(10*time.Second), []Observation{good(says(Healthy, 0, t0))})
	assert.Equal(t, Stale, v.Phase, "the report is 10 s old")
}

func TestAnAnswerThatIsNoNewsRevivesAStaleProbe(t *testing.T) {
	tr := reported(t, policy)
	same := good(says(Healthy, 9, t0))
	v, next := tr.Evaluate(at(11*time.Second), []Observation{same})
	require.Equal(t, Stale, v.Phase)
	same.At = next
	v, _ = tr.Evaluate(next, []Observation{same})
	assert.Equal(t, Reported, v.Phase)
	assert.True(t, v.Alive)
}

func TestAnotherPolicyIsNoSilence(t *testing.T) {
	tr := reported(t, policy)
	short := policy
	short.StaleAfter, short.OnStale = 2*time.Second, TurnCritical
	tr.Redefine(web, short, false)
	old := good(says(Healthy, 9, t0))
	v, _ := tr.Evaluate(at(4*time.Second), []Observation{old})
	assert.Equal(t, Passing, v.Status, "the next report at the new pace has still to come")
	v, _ = tr.Evaluate(at(20*time.Second), []Observation{old})
	assert.Equal(t, Critical, v.Status)
}

func TestANewStreamIsAwaitedLongerThanSilence(t *testing.T) {
	tr := reported(t, policy)
	v, next := tr.Evaluate(at(5*time.Second), []Observation{{Observer: "a", Stream: 2}})
	assert.Equal(t, Adopted, v.Phase)
	assert.Equal(t, at(20*time.Second), next, "counted from the last answer")
	v, _ = tr.Evaluate(at(19*time.Second), nil)
	assert.Equal(t, Adopted, v.Phase, "also when the stream is gone again")
	v, _ = tr.Evaluate(at(20*time.Second), nil)
	assert.Equal(t, Stale, v.Phase)
}

// TestAStreamThatSaysNothingForEverIsNotAwaitedForEver: a mute Envoy beside one that
// answers must not keep a status alive for longer when that one dies.
func TestAStreamThatSaysNothingForEverIsNotAwaitedForEver(t *testing.T) {
	tr := reported(t, policy)
	mute := Observation{Observer: "b", Stream: 2}
	for now := time.Second; now <= time.Minute; now += time.Second {
		v, _ := tr.Evaluate(at(now), []Observation{good(says(Healthy, 9, at(now))), mute})
		assert.Equal(t, Reported, v.Phase)
	}
	v, next := tr.Evaluate(at(65*time.Second), []Observation{mute})
	assert.Equal(t, Reported, v.Phase)
	assert.Equal(t, at(70*time.Second), next)
	v, _ = tr.Evaluate(at(70*time.Second), []Observation{mute})
	assert.Equal(t, Stale, v.Phase)
	_, next = tr.Evaluate(at(71*time.Second), []Observation{good(says(Healthy, 1, at(71*time.Second))), mute, {Observer: "c", Stream: 3}})
	assert.Equal(t, at(72*time.Second), next, "looked at again soon")
	v, next = tr.Evaluate(at(73*time.Second), []Observation{mute})
	assert.Equal(t, Adopted, v.Phase, "one that has just come is awaited")
	assert.Equal(t, at(91*time.Second), next)
}

func TestTheOldStreamsWordCountsUntilTheNewOneHasOne(t *testing.T) {
	tr := reported(t, policy)
	slow := web
	slow.Grace = 15 * time.Second
	tr.Redefine(slow, policy, false)
	old := good(says(Healthy, 9, at(time.Second)))
	v, _ := tr.Evaluate(at(time.Second), []Observation{old, {Observer: "a", Stream: 2, Answer: Unhealthy, Quiet: 30, At: at(time.Second)}})
	assert.Equal(t, Passing, v.Status, "the new stream's word does not count yet")
	assert.Equal(t, Reported, v.Phase)
	v, next := tr.Evaluate(at(2*time.Second), []Observation{{Observer: "a", Stream: 2, Answer: Unhealthy, Reports: 2, Quiet: 30, At: at(2 * time.Second)}})
	assert.Equal(t, Adopted, v.Phase, "the old stream has ended")
	assert.Equal(t, at(21*time.Second), next)
	bad := Observation{Observer: "a", Stream: 2, Answer: Unhealthy, Reports: 31, Quiet: 30, At: at(17 * time.Second)}
	v, _ = tr.Evaluate(at(17*time.Second), []Observation{good(says(Healthy, 40, at(17*time.Second))), bad})
	assert.Equal(t, Critical, v.Status, "the newest stream of one node id counts")
}

func TestAnotherObserverIsAwaitedAlsoIfItsStreamIsOlder(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	tr.Evaluate(t0, []Observation{good(Observation{Observer: "node", Stream: 7, Answer: Healthy, At: t0})})
	v, next := tr.Evaluate(at(time.Second), []Observation{{Observer: "sidecar", Stream: 3}})
	assert.Equal(t, Adopted, v.Phase)
	assert.Equal(t, at(20*time.Second), next)
}

func TestTheWorstOfTheFreshObserversWins(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	a := good(Observation{Observer: "a", Stream: 1, Answer: Healthy, At: t0})
	b := good(Observation{Observer: "b", Stream: 2, Answer: Timeout, At: t0})
	v, _ := tr.Evaluate(t0, []Observation{a, b})
	assert.Equal(t, Critical, v.Status)
	assert.Equal(t, "http GET http://127.0.0.1:80/: timeout, says Envoy b", v.Output)
	a.At = at(11 * time.Second)
	v, _ = tr.Evaluate(at(11*time.Second), []Observation{a, b})
	assert.Equal(t, Passing, v.Status, "b is stale")
	v, _ = tr.Evaluate(at(12*time.Second), []Observation{a})
	assert.Equal(t, Passing, v.Status, "b is gone")
}

func TestTooManyRequestsIsAWarning(t *testing.T) {
	tr := reported(t, policy)
	say := func(s time.Duration, code int) Verdict {
		o := good(says(Unhealthy, 9, at(s)))
		o.Code = code
		v, _ := tr.Evaluate(at(s), []Observation{o})
		return v
	}
	assert.Equal(t, Warning, say(time.Second, 429).Status)
	assert.Equal(t, Warning, say(2*time.Second, 200).Status, "recovering")
	assert.Equal(t, Warning, say(4*time.Second, 200).Status, "recovering, for 2 s")
	assert.Equal(t, Critical, say(4100*time.Millisecond, 200).Status, "for longer than a recovery takes")
	assert.Equal(t, Critical, say(5*time.Second, 200).Status, "an expected code explains no critical")
	v := say(6*time.Second, 429)
	assert.Equal(t, Warning, v.Status)
	assert.Contains(t, v.Output, "HTTP 429")
	assert.Equal(t, Critical, say(7*time.Second, 503).Status)
	assert.Equal(t, Critical, say(8*time.Second, 0).Status, "without a code")
}

func TestARecoveryEndsByTimeAlone(t *testing.T) {
	tr := reported(t, policy)
	o := good(says(Unhealthy, 9, at(time.Second)))
	o.Code = 429
	tr.Evaluate(at(time.Second), []Observation{o})
	o.Code = 204
	v, next := tr.Evaluate(at(2*time.Second), []Observation{o})
	assert.Equal(t, Warning, v.Status)
	assert.False(t, next.After(at(4050*time.Millisecond)), "the recovery ends by then")
	v, _ = tr.Evaluate(at(4050*time.Millisecond), []Observation{o})
	assert.Equal(t, Critical, v.Status)
}

func TestBadContentHasToStay(t *testing.T) {
	content := web
	content.Confirm = 2 * time.Second
	tr := NewTracker(content, policy, t0)
	tr.Evaluate(t0, []Observation{good(says(Healthy, 0, t0))})
	say := func(s time.Duration, a Answer, code int) (Verdict, time.Time) {
		o := good(says(a, 9, at(s)))
		o.Code = code
		return tr.Evaluate(at(s), []Observation{o})
	}
	v, next := say(time.Second, Unhealthy, 200)
	assert.Equal(t, Passing, v.Status, "one bad answer")
	assert.False(t, next.After(at(3*time.Second)), "the hold ends at 3 s")
	v, _ = say(2*time.Second, Healthy, 200)
	assert.Equal(t, Passing, v.Status)
	v, _ = say(3*time.Second, Unhealthy, 200)
	assert.Equal(t, Passing, v.Status, "it is counted anew")
	v, _ = say(4900*time.Millisecond, Unhealthy, 200)
	assert.Equal(t, Passing, v.Status)
	v, _ = say(5*time.Second, Unhealthy, 200)
	assert.Equal(t, Critical, v.Status)
	v, _ = say(6*time.Second, Unhealthy, 200)
	assert.Equal(t, Critical, v.Status)

	for name, failure := range map[string]struct {
		answer Answer
		code   int
	}{"a bad status": {Unhealthy, 500}, "no answer": {Unhealthy, 0}, "a time-out": {Timeout, 0}} {
		tr = NewTracker(content, policy, t0)
		tr.Evaluate(t0, []Observation{good(says(Healthy, 0, t0))})
		v, _ = say(time.Second, failure.answer, failure.code)
		assert.Equal(t, Critical, v.Status, name+" has been counted by Envoy")
	}
}

func TestCodesOfOtherProbesSayNothing(t *testing.T) {
	tcp := web
	tcp.Expects = nil
	tr := NewTracker(tcp, policy, t0)
	o := good(says(Unhealthy, 9, t0))
	o.Code = 429
	v, _ := tr.Evaluate(t0, []Observation{o})
	assert.Equal(t, Critical, v.Status)
	assert.NotContains(t, v.Output, "429")
}

func TestDegradedIsAWarning(t *testing.T) {
	tr := NewTracker(web, policy, t0)
	v, _ := tr.Evaluate(t0, []Observation{says(Degraded, 0, t0)})
	assert.Equal(t, Warning, v.Status)
}

func TestTheOutputIsFixedAtTheTransition(t *testing.T) {
	tr := reported(t, policy)
	o := good(says(Unhealthy, 9, at(time.Second)))
	o.Code = 500
	v, _ := tr.Evaluate(at(time.Second), []Observation{o})
	assert.Contains(t, v.Output, "HTTP 500")
	o.Code = 503
	again, _ := tr.Evaluate(at(2*time.Second), []Observation{o})
	assert.Equal(t, v, again, "another code under the same status writes nothing")
	o.Code = 200
	tr2 := reported(t, policy)
	v, _ = tr2.Evaluate(at(time.Second), []Observation{o})
	assert.NotContains(t, v.Output, "200", "an expected code is that of a later probe")
}

func TestAnotherDefinitionKeepsTheStatus(t *testing.T) {
	tr := reported(t, policy)
	tr.Redefine(web, policy, true)
	v, next := tr.Evaluate(at(3*time.Second), []Observation{{Observer: "a", Stream: 1}})
	assert.Equal(t, Adopted, v.Phase)
	assert.Equal(t, Passing, v.Status)
	assert.Equal(t, at(20*time.Second), next)
	tr.Redefine(web, policy, true)
	v, _ = tr.Evaluate(at(20*time.Second), []Observation{{Observer: "a", Stream: 1}})
	assert.Equal(t, Stale, v.Phase, "more definitions do not move the deadline")
}

func TestOutputsAreCutOnARune(t *testing.T) {
	long := web
	long.Subject = strings.Repeat("é", 600)
	tr := NewTracker(long, policy, t0)
	v, _ := tr.Evaluate(t0, []Observation{says(Healthy, 0, t0)})
	assert.LessOrEqual(t, len(v.Output), 1024)
	assert.Greater(t, len(v.Output), 1000)
	assert.True(t, utf8.ValidString(v.Output))
	assert.Equal(t, strings.Repeat("é", len(v.Output)/2), v.Output)
}

// TestVerdictsOfAnyHistory holds the promises that no history may break.
func TestVerdictsOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := policy
		p.OnStale = rapid.SampledFrom([]OnStale{Expire, TurnCritical, Keep}).Draw(rt, "on_stale")
		tr := NewTracker(web, p, t0)
		last, now := time.Time{}, t0
		if rapid.Bool().Draw(rt, "adopted") {
			tr.Adopt(t0, Passing, "as found")
			last = t0
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 6000).Draw(rt, "ms")) * time.Millisecond)
			var obs []Observation
			for range rapid.IntRange(0, 3).Draw(rt, "observers") {
				o := Observation{
					Observer: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "observer"),
					Stream:   rapid.Uint64Range(1, 9).Draw(rt, "stream"),
					Answer:   Answer(rapid.IntRange(0, 4).Draw(rt, "answer")),
					Code:     rapid.SampledFrom([]int{0, 200, 429, 500}).Draw(rt, "code"),
					Reports:  rapid.IntRange(0, 20).Draw(rt, "reports"),
					At:       now.Add(-time.Duration(rapid.IntRange(0, 15).Draw(rt, "age")) * time.Second),
				}
				o.WasHealthy = o.Answer == Healthy || rapid.Bool().Draw(rt, "was healthy")
				if o.At.Before(t0) {
					o.At = t0 // no stream is older than the daemon
				}
				if o.Counts() && o.At.After(last) {
					last = o.At
				}
				obs = append(obs, o)
			}
			v, next := tr.Evaluate(now, obs)
			if !next.IsZero() && !next.After(now) {
				rt.Fatalf("next look at %s is not after %s", next, now)
			}
			if v.Status == Passing && v.Alive && p.OnStale != Keep && now.Sub(last) >= 20*time.Second {
				rt.Fatalf("kept passing alive %s after the last answer", now.Sub(last))
			}
			if v.Status == None && v.Output != "" || v.Status == None && v.Alive {
				rt.Fatalf("a check that is not there is written: %+v", v)
			}
			if again, _ := tr.Evaluate(now, obs); again != v {
				rt.Fatalf("the same look gives another verdict: %+v, then %+v", v, again)
			}
		}
	})
}
