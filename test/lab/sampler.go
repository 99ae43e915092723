package lab

import (
	"context"
	"sync"
	"time"
)

// sampleEvery is the pause between two looks of a Sampler.
const sampleEvery = 20 * time.Millisecond

// Sampler looks at the catalog each 20 ms, and notes every status that a check
// has other than the one it should have.
type Sampler struct {
	consul *Consul
	want   map[string]string
	cancel context.CancelFunc
	done   sync.WaitGroup
	seen   Samples // of the sampler's goroutine, until done
}

// Samples are what a Sampler has seen.
type Samples struct {
	// Count is how often the catalog was read.
	Count int
	// Away is how often it could not be read, as while the agent restarts.
	Away int
	// Wrong are all other statuses, in order of time.
	Wrong []WrongStatus
}

// WrongStatus is a check that one sample showed with another status than it
// should have, or, with an empty status, did not show.
type WrongStatus struct{ CheckID, Status string }

// Sample starts a Sampler of the agent's node. want is the status of each check
// to look at, by its id; it must not change any more.
func (c *Consul) Sample(want map[string]string) *Sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sampler{consul: c, want: want, cancel: cancel}
	s.done.Go(func() { Every(ctx, sampleEvery, func() { s.look(ctx) }) })
	return s
}

// Stop ends the sampler, and returns what it has seen.
func (s *Sampler) Stop() Samples {
	s.cancel()
	s.done.Wait()
	return s.seen
}

func (s *Sampler) look(ctx context.Context) {
	list, err := s.consul.CatalogChecks(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil || len(list) == 0:
		s.seen.Away++
		return
	}
	s.seen.Count++
	got := map[string]string{}
	for _, c := range list {
		got[c.CheckID] = c.Status
	}
	for id, status := range s.want {
		if got[id] != status {
			s.seen.Wrong = append(s.seen.Wrong, WrongStatus{id, got[id]})
		}
	}
}
