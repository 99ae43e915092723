package catalog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hourly never polls while a test lasts.
var hourly = Config{PollInterval: time.Hour, Node: Node{Name: "n1"}}

func TestBellIsAnsweredAtOnceAndNotTooOften(t *testing.T) {
	s, moved := &stub{}, make(chan uint64)
	s.bell = func(ctx context.Context, _ uint64) (ring, error) {
		select {
		case index := <-moved:
			return ring{node: Node{Name: "n1", Address: "192.0.2.7"}, index: index}, nil
		case <-ctx.Done():
			return ring{}, ctx.Err()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		moved = make(chan uint64)
		w := newWatcher(hourly, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		after(time.Second)
		moved <- 5
		synctest.Wait()
		require.Equal(t, 2, s.seen().reads, "the bell is answered without delay")
		assert.Equal(t, "192.0.2.7", w.Snapshot().Node.Address)
		start := time.Now()
		for index := uint64(6); time.Since(start) < 10*time.Second; index++ {
			moved <- index
		}
		synctest.Wait()
		assert.LessOrEqual(t, s.seen().reads, 2+51, "one pass in 200 ms")
		assert.Greater(t, s.seen().reads, 40)
		cancel()
		require.NoError(t, <-done)
	})
}

// A registration that comes right after a poll, and one more right after it, are
// as quick as any.
func TestBellIsAnsweredAtOnceAfterAPoll(t *testing.T) {
	s := &stub{}
	inFakeTime(t, s, Config{PollInterval: time.Hour}, func(t *testing.T, w *Watcher) {
		require.Equal(t, 1, s.seen().reads)
		for i := range bellBurst {
			w.Refresh()
			synctest.Wait()
			require.Equal(t, 2+i, s.seen().reads)
		}
	})
}

func TestBellDuringReadCausesOneMore(t *testing.T) {
	s := &stub{delay: 3 * time.Second}
	inFakeTime(t, s, hourly, func(t *testing.T, w *Watcher) {
		for range 5 {
			after(100 * time.Millisecond)
			w.Refresh()
		}
		after(30 * time.Second)
		assert.Equal(t, 2, s.seen().reads)
	})
}

// Failing writes may ask for reads as often as they like.
func TestRefreshIsBounded(t *testing.T) {
	s := &stub{}
	inFakeTime(t, s, hourly, func(t *testing.T, w *Watcher) {
		for range 1000 {
			w.Refresh()
			after(10 * time.Millisecond)
		}
		assert.InDelta(t, 50, s.seen().reads, 3, "one pass in 200 ms")
	})
}

// The rules of blocking queries, each with an agent that answers at once and for
// ever the same wrong thing: no more than a few queries in a minute.
func TestBellIsNeverAHotLoop(t *testing.T) {
	n1 := Node{Name: "n1"}
	counts := map[string]func(index uint64) (ring, error){
		"zero":      func(uint64) (ring, error) { return ring{node: n1}, nil },
		"same":      func(uint64) (ring, error) { return ring{node: n1, index: 7}, nil },
		"500":       func(uint64) (ring, error) { return ring{}, status(500) },
		"429":       func(uint64) (ring, error) { return ring{}, status(429) },
		"403":       func(uint64) (ring, error) { return ring{}, status(403) },
		"null node": func(uint64) (ring, error) { return ring{index: 1}, nil },
	}
	for name, answer := range counts {
		t.Run(name, func(t *testing.T) {
			s := &stub{bell: func(_ context.Context, i uint64) (ring, error) { return answer(i) }}
			inFakeTime(t, s, hourly, func(t *testing.T, w *Watcher) {
				after(time.Minute)
				assert.LessOrEqual(t, s.seen().bells, 12)
				assert.LessOrEqual(t, s.seen().reads, 13)
				if name == "403" || name == "null node" {
					assert.LessOrEqual(t, s.seen().bells, 6, "a pause of ten seconds at least")
					assert.NotEmpty(t, w.Health().DoorbellErr)
					assert.True(t, w.Health().Synced, "the poll is what counts")
				}
				after(time.Hour)
				assert.LessOrEqual(t, s.seen().bells, 380)
			})
		})
	}
}

func TestBellIndexRules(t *testing.T) {
	answers := []uint64{50, 60, 3, 4, 0, 9}
	s := &stub{}
	s.bell = func(ctx context.Context, _ uint64) (ring, error) {
		s.mu.Lock()
		n := s.log.bells
		s.mu.Unlock()
		if n > len(answers) {
			<-ctx.Done()
			return ring{}, ctx.Err()
		}
		time.Sleep(time.Minute)
		return ring{node: Node{Name: "n1"}, index: answers[n-1]}, nil
	}
	inFakeTime(t, s, hourly, func(t *testing.T, _ *Watcher) {
		after(10 * time.Minute)
		assert.Equal(t, []uint64{0, 50, 60, 0, 4, 1, 9}, s.seen().indexes[:7])
		assert.Equal(t, 1+len(answers), s.seen().reads, "each of these moves rings")
	})
}

// A query that is answered neither with news nor with an end is given up.
func TestBellQueryEnds(t *testing.T) {
	s := &stub{}
	inFakeTime(t, s, hourly, func(t *testing.T, _ *Watcher) {
		after(12 * time.Minute)
		assert.Equal(t, 3, s.seen().bells)
	})
}
