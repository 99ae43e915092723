package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stub is an agent in memory, for tests in fake time.
type stub struct {
	mu        sync.Mutex
	listed    map[string]bool
	checked   map[string]string // check id to service id
	err       error             // of services
	delay     time.Duration     // of services, in disregard of the context
	slow      time.Duration     // of each list, which heed the context
	exists    map[string]error  // for gone: nil error is 200; not in the map is 404
	selfNode  Node
	selfErr   error
	checkNode string
	bell      func(ctx context.Context, index uint64) (ring, error)

	log record
}

// record is what a stub was asked.
type record struct {
	reads, bells, selves int
	asked                []string
	indexes              []uint64
}

func (s *stub) seen() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

func status(code int) error { return fmt.Errorf("asking: %w", api.StatusError{Code: code}) }

func (s *stub) services(ctx context.Context) (map[string]*Instance, error) {
	s.mu.Lock()
	s.log.reads++
	delay, slow := s.delay, s.slow
	s.mu.Unlock()
	if slow > 0 && !sleep(ctx, slow) {
		return nil, ctx.Err()
	}
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*Instance{}
	for id := range s.listed {
		out[id] = &Instance{ID: id, Service: "s", Meta: map[string]string{"k": "v"}}
	}
	return out, s.err
}

func (s *stub) checks(ctx context.Context) (map[string]*Check, string, error) {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow > 0 && !sleep(ctx, slow) {
		return nil, "", ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*Check{}
	for id, service := range s.checked {
		out[id] = &Check{ID: id, ServiceID: service}
	}
	return out, s.checkNode, nil
}

func (s *stub) gone(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.asked = append(s.log.asked, id)
	err, there := s.exists[id]
	return !there, err
}

func (s *stub) self(context.Context) (Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.selves++
	return s.selfNode, s.selfErr
}

func (s *stub) nodeServices(ctx context.Context, _ string, index uint64, _ time.Duration) (ring, error) {
	s.mu.Lock()
	s.log.bells++
	s.log.indexes = append(s.log.indexes, index)
	bell := s.bell
	s.mu.Unlock()
	if bell == nil {
		<-ctx.Done()
		return ring{}, ctx.Err()
	}
	return bell(ctx, index)
}

func (s *stub) set(change func(*stub)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func count(all []string, one string) int {
	n := 0
	for _, a := range all {
		if a == one {
			n++
		}
	}
	return n
}

func ids(of ...string) map[string]bool {
	m := map[string]bool{}
	for _, id := range of {
		m[id] = true
	}
	return m
}

// inFakeTime runs body beside a Watcher in a bubble of fake time.
func inFakeTime(t *testing.T, s *stub, config Config, body func(t *testing.T, w *Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(config, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		body(t, w)
		cancel()
		require.NoError(t, <-done)
	})
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSafetyPoll(t *testing.T) {
	s := &stub{listed: ids("a"), selfNode: Node{Name: "n1", Address: "192.0.2.1"}}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		first := w.Snapshot()
		require.NotNil(t, first)
		assert.Equal(t, uint64(1), first.Revision)
		assert.Equal(t, s.selfNode, first.Node)
		after(60 * time.Second)
		assert.InDelta(t, 60, s.seen().reads, 8)
		last := w.Snapshot()
		assert.Equal(t, uint64(1), last.Revision)
		assert.True(t, last.ReadAt.After(first.ReadAt))
		assert.Equal(t, 1, s.seen().selves, "agent/self is asked once")
		assert.Len(t, w.Updates(), 1)
	})
}

func TestFirstSnapshotMayBeEmpty(t *testing.T) {
	inFakeTime(t, &stub{}, Config{}, func(t *testing.T, w *Watcher) {
		require.NotNil(t, w.Snapshot())
		assert.Equal(t, uint64(1), w.Snapshot().Revision)
		assert.Len(t, w.Updates(), 1)
	})
}

func TestRevisionMovesWithContent(t *testing.T) {
	s := &stub{listed: ids("a")}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		for i, change := range []func(*stub){
			func(s *stub) { s.listed = ids("a", "b") },
			func(s *stub) { s.checked = map[string]string{"c": "b"} },
			func(s *stub) { s.checked = map[string]string{"c": "a"} },
			func(s *stub) { s.checkNode = "n2" },
			func(s *stub) { s.listed = ids("a") },
		} {
			s.set(change)
			after(3 * time.Second)
			assert.Equal(t, uint64(i+2), w.Snapshot().Revision)
		}
	})
}

func TestAnAgentThatIsAwayIsLookedForAtThePaceOfThePoll(t *testing.T) {
	nobody, err := api.NewClient(&api.Config{Address: "127.0.0.1:1"})
	require.NoError(t, err)
	_, away := (&client{raw: nobody.Raw()}).services(t.Context())
	require.ErrorContains(t, away, "connection refused")
	s := &stub{listed: ids("a")}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		s.set(func(s *stub) { s.err = away; s.log.reads = 0 })
		after(60 * time.Second)
		assert.InDelta(t, 60, s.seen().reads, 8)
		assert.False(t, w.Health().Synced)
		s.set(func(s *stub) { s.err = nil })
		after(1100 * time.Millisecond)
		assert.True(t, w.Health().Synced, "a lost check has to be back within 2 s")
	})
}

func TestFailedReadsBackOff(t *testing.T) {
	s := &stub{listed: ids("a")}
	inFakeTime(t, s, Config{PollInterval: 100 * time.Millisecond}, func(t *testing.T, w *Watcher) {
		stands := w.Snapshot()
		s.set(func(s *stub) { s.err = status(http.StatusInternalServerError); s.log.reads = 0 })
		after(60 * time.Second)
		assert.Less(t, s.seen().reads, 30)
		assert.Greater(t, s.seen().reads, 10)
		assert.Same(t, stands, w.Snapshot())
		health := w.Health()
		assert.False(t, health.Synced)
		assert.Contains(t, health.Err, "500")
		assert.Equal(t, stands.ReadAt, health.LastSync)
		s.set(func(s *stub) { s.err = nil })
		after(6 * time.Second)
		assert.True(t, w.Health().Synced)
		assert.Equal(t, stands.Revision, w.Snapshot().Revision)
	})
}

func TestLateAnswerIsNoSnapshot(t *testing.T) {
	s := &stub{listed: ids("a"), delay: 11 * time.Second}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(12 * time.Second)
		assert.Nil(t, w.Snapshot())
		assert.Contains(t, w.Health().Err, "deadline")
	})
}

func TestASlowAgentIsReadAllTheSame(t *testing.T) {
	s := &stub{listed: ids("a"), slow: 5 * time.Second}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(15 * time.Second)
		require.NotNil(t, w.Snapshot())
		assert.True(t, w.Health().Synced)
	})
}

func TestConfirmation(t *testing.T) {
	s := &stub{listed: ids("gone", "forbidden", "broken", "there")}
	s.checked = map[string]string{"c:forbidden": "forbidden", "c:gone": "gone", "c:node": ""}
	s.exists = map[string]error{"forbidden": status(403), "broken": errors.New("reset"), "there": nil}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		s.set(func(s *stub) { s.listed = nil })
		after(5 * time.Second)
		left := slices.Sorted(maps.Keys(w.Snapshot().Instances))
		assert.Equal(t, []string{"broken", "forbidden", "there"}, left)
		assert.Equal(t, ids(left...), w.Snapshot().Unconfirmed)
		assert.Equal(t, []string{"c:forbidden", "c:node"}, slices.Sorted(maps.Keys(w.Snapshot().Checks)))
		assert.Equal(t, 1, count(s.seen().asked, "forbidden"), "the agent logs each refusal")
		assert.Greater(t, count(s.seen().asked, "broken"), 2)
		s.set(func(s *stub) { delete(s.exists, "forbidden") })
		after(forbiddenPause)
		assert.NotContains(t, w.Snapshot().Instances, "forbidden")
	})
}

func TestConfirmationsAreBounded(t *testing.T) {
	const many = 500
	s := &stub{listed: map[string]bool{}}
	for i := range many {
		s.listed[fmt.Sprint(i)] = true
	}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		s.set(func(s *stub) { s.listed = nil; s.log.reads = 0 })
		after(1100 * time.Millisecond)
		reads := s.seen().reads
		require.LessOrEqual(t, reads, 3, "a poll, and what each of two reads asks for")
		assert.Len(t, s.seen().asked, reads*maxConfirmations)
		after(30 * time.Second)
		assert.Empty(t, w.Snapshot().Instances)
		assert.Len(t, s.seen().asked, 2*many, "each is unknown twice before it is gone")
	})
}

func TestIDsThatCannotBeAskedFor(t *testing.T) {
	s := &stub{listed: ids("a//b", "a/b")}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		s.set(func(s *stub) { s.listed = ids("a/b"); s.log.reads = 0 })
		after(1100 * time.Millisecond)
		require.Equal(t, 1, s.seen().reads)
		assert.Contains(t, w.Snapshot().Instances, "a//b", "one list is not enough")
		s.set(func(s *stub) { s.err = status(500) })
		after(2 * time.Second)
		s.set(func(s *stub) { s.err = nil })
		after(5 * time.Second)
		assert.NotContains(t, w.Snapshot().Instances, "a//b")
		assert.Empty(t, s.seen().asked)
	})
}

func TestAskable(t *testing.T) {
	for _, id := range []string{"a", "a/b", "a%2Fb", "ü", "a b", "..a", "a?b#c"} {
		assert.True(t, askable(id), id)
	}
	for _, id := range []string{"", ".", "..", "/a", "a/", "a//b", "a/../b", "a\nb", "a\x7f", string(make([]byte, 2000))} {
		assert.False(t, askable(id), id)
	}
}

// A service that is registered while a snapshot is read comes with the next.
func TestDanglingChecksWait(t *testing.T) {
	s := &stub{listed: ids("a"), checked: map[string]string{"c:a": "a", "c:new": "new", "node": ""}}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		assert.Equal(t, []string{"c:a", "node"}, slices.Sorted(maps.Keys(w.Snapshot().Checks)))
		s.set(func(s *stub) { s.listed = ids("a", "new") })
		after(2 * time.Second)
		assert.Contains(t, w.Snapshot().Checks, "c:new")
	})
}
