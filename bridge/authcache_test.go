package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

// oracle answers about tokens, and counts.
type oracle struct {
	known sync.Map
	asked atomic.Int64
	// now and most are how many questions are under way, and were at most.
	now, most atomic.Int64
	// takes is how long an answer takes.
	takes time.Duration
	away  atomic.Bool
}

func (o *oracle) Authorize(ctx context.Context, token hds.Token, services []string) (map[string]bool, error) {
	o.asked.Add(1)
	n := o.now.Add(1)
	defer o.now.Add(-1)
	if n > o.most.Load() {
		o.most.Store(n)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(o.takes):
	}
	if o.away.Load() {
		return nil, errors.New("away")
	}
	if _, ok := o.known.Load(token.Secret()); !ok {
		return nil, hds.ErrUnknownToken
	}
	out := map[string]bool{}
	for _, s := range services {
		out[s] = s == "web"
	}
	return out, nil
}

func newCautious(t *testing.T, o *oracle, known ...string) *cautiousAuthorizer {
	t.Helper()
	for _, k := range known {
		o.known.Store(k, true)
	}
	c, err := newCautiousAuthorizer(o, 256)
	require.NoError(t, err)
	return c
}

func TestVerdictsAreKeptForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{}
		c := newCautious(t, o, "good")
		ask := func(token string, services ...string) (map[string]bool, error) {
			return c.Authorize(t.Context(), mustToken(t, token), services)
		}
		for range 10 {
			allowed, err := ask("good", "db", "web")
			require.NoError(t, err)
			assert.Equal(t, map[string]bool{"db": false, "web": true}, allowed)
			allowed, err = ask("good", "web")
			require.NoError(t, err)
			assert.Equal(t, map[string]bool{"web": true}, allowed, "what was asked, and no more")
			_, err = ask("bad", "web")
			require.ErrorIs(t, err, hds.ErrUnknownToken)
		}
		assert.EqualValues(t, 2, o.asked.Load())
		_, err := ask("good", "api")
		require.NoError(t, err)
		assert.EqualValues(t, 3, o.asked.Load(), "another service is another question")

		o.known.Delete("good")
		o.known.Store("bad", true)
		time.Sleep(verdictKept)
		_, err = ask("good", "web")
		require.ErrorIs(t, err, hds.ErrUnknownToken)
		_, err = ask("bad", "web")
		require.NoError(t, err)
		o.away.Store(true)
		time.Sleep(verdictKept)
		for range 3 {
			_, err = ask("bad", "web")
			require.EqualError(t, err, "away")
		}
		o.away.Store(false)
		_, err = ask("bad", "web")
		require.NoError(t, err, "a failure is not kept")
	})
}

// Ten thousand strangers, each with a token of its own, for a minute.
func TestStrangersAreNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{takes: 10 * time.Millisecond}
		c := newCautious(t, o, "good")
		_, err := c.Authorize(t.Context(), mustToken(t, "good"), []string{"web"})
		require.NoError(t, err)
		var knocking sync.WaitGroup
		var held atomic.Int64
		for i := range 10_000 {
			knocking.Go(func() {
				time.Sleep(time.Duration(i) * 6 * time.Millisecond)
				_, err := c.Authorize(t.Context(), mustToken(t, fmt.Sprint("guess-", i)), []string{"web"})
				if errors.Is(err, errStrangers) {
					held.Add(1)
				}
			})
		}
		for range 12 {
			time.Sleep(verdictKept)
			start := time.Now()
			_, err := c.Authorize(t.Context(), mustToken(t, "good"), []string{"web"})
			require.NoError(t, err)
			assert.Less(t, time.Since(start), 50*time.Millisecond, "who is known does not wait for them")
		}
		knocking.Wait()
		assert.LessOrEqual(t, o.asked.Load(), int64(strangersAtOnce+60*strangersPerSecond+20))
		assert.LessOrEqual(t, o.most.Load(), int64(2), "at a time")
		assert.Greater(t, held.Load(), int64(8000))
		assert.LessOrEqual(t, c.bad.Len(), verdictsKept)
	})
}

// An agent that hangs on the question of a stranger holds up no known token.
func TestStrangersDoNotHoldUpTheKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{takes: time.Second}
		c := newCautious(t, o, "good")
		_, err := c.Authorize(t.Context(), mustToken(t, "good"), nil)
		require.NoError(t, err)
		time.Sleep(verdictKept)
		var knocking sync.WaitGroup
		for i := range 100 {
			knocking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, _ = c.Authorize(ctx, mustToken(t, fmt.Sprint("guess-", i)), nil)
			})
		}
		synctest.Wait()
		start := time.Now()
		_, err = c.Authorize(t.Context(), mustToken(t, "good"), nil)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		knocking.Wait()
	})
}
