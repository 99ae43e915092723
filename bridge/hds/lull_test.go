package hds

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rest lets fake time pass, and what is due by then be done.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestALullIsOneCallNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		called := make(chan time.Duration, 9)
		l := &lull{call: func() { called <- time.Since(start) }}
		stir := func(times int) {
			for range times {
				l.stir()
			}
		}
		stir(burst - 1)
		rest(2 * settleApart)
		assert.Empty(t, called, "it is no burst")
		for range 3 {
			stir(1)
			rest(settledAfter - time.Second)
		}
		assert.Empty(t, called, "it has not been quiet for long enough")
		rest(2 * time.Second)
		first := 2*settleApart + 2*(settledAfter-time.Second) + settledAfter
		assert.Len(t, called, 1)
		assert.Equal(t, first, <-called)
		stir(burst)
		rest(settleApart / 2)
		assert.Empty(t, called, "too soon")
		rest(settleApart)
		assert.Len(t, called, 1)
		assert.Equal(t, first+settleApart, <-called)
		stir(burst)
		l.stop()
		stir(burst)
		rest(2 * settleApart)
		assert.Empty(t, called, "it was stopped")
	})
}

func TestALullThatIsStirredWhenItIsDueIsOneCall(t *testing.T) {
	for range 200 { // which of the two comes first is for the scheduler to say
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			l := &lull{call: func() { calls.Add(1) }}
			for range burst {
				l.stir()
			}
			time.Sleep(settledAfter)
			l.stir()
			rest(settleApart - time.Second)
			require.LessOrEqual(t, calls.Load(), int64(1))
			l.stop()
		})
	}
}

// One Envoy that comes and goes all the time does not put it off for ever.
func TestALullThatDoesNotComeIsOverAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		l := &lull{call: func() { calls.Add(1) }}
		for range burst - 1 {
			l.stir()
		}
		for range 360 { // an hour
			time.Sleep(settledAfter - time.Second)
			l.stir()
		}
		synctest.Wait()
		assert.InDelta(t, 25, calls.Load(), 3, "a minute after each burst, which takes 80 s here")
		l.stop()
	})
}

// TestAServerSettlesOnceItsStreamsHave: after many have begun or ended, and
// never without.
func TestAServerSettlesOnceItsStreamsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var settled atomic.Int64
		s, err := New(Config{Listen: []string{"127.0.0.1:0"}, MaxStreams: burst, Logger: hclog.NewNullLogger(), Metrics: &counts{}, Settled: func() { settled.Add(1) }})
		require.NoError(t, err)
		rest(2 * settleApart)
		assert.Zero(t, settled.Load())
		var all []*session
		for range burst {
			ses, err := s.open(newIdentity(newNode("n1")), "peer", nil, func() {}, &frame{})
			require.NoError(t, err)
			all = append(all, ses)
		}
		rest(2 * settleApart)
		assert.EqualValues(t, 1, settled.Load())
		for _, ses := range all {
			s.close(ses, errShuttingDown)
		}
		rest(2 * settleApart)
		assert.EqualValues(t, 2, settled.Load())
	})
}
