package catalog

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodeFromConfigAsksNobody(t *testing.T) {
	want := Node{Name: "n9", Address: "192.0.2.9"}
	s := &stub{selfNode: Node{Name: "n1", Address: "192.0.2.1"}, checkNode: "n2"}
	inFakeTime(t, s, Config{Node: want}, func(t *testing.T, w *Watcher) {
		after(5 * time.Second)
		assert.Equal(t, want, w.Snapshot().Node)
		assert.Zero(t, s.seen().selves)
		assert.Equal(t, 1, s.seen().bells)
	})
}

func TestNodeFieldsAreFilledOneByOne(t *testing.T) {
	s := &stub{selfNode: Node{Name: "n1", Address: "192.0.2.1"}}
	inFakeTime(t, s, Config{Node: Node{Name: "n9"}}, func(t *testing.T, w *Watcher) {
		assert.Equal(t, Node{Name: "n9", Address: "192.0.2.1"}, w.Snapshot().Node)
	})
}

// Without agent:read the name comes from any check, the address from the bell.
func TestNodeWithLeastPrivilege(t *testing.T) {
	s := &stub{selfErr: status(http.StatusForbidden)}
	s.bell = func(ctx context.Context, index uint64) (ring, error) {
		if index == 0 {
			return ring{node: Node{Name: "n1", Address: "192.0.2.1"}, index: 3}, nil
		}
		<-ctx.Done()
		return ring{}, ctx.Err()
	}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(5 * time.Second)
		assert.Equal(t, Node{}, w.Snapshot().Node)
		assert.Zero(t, s.seen().bells)
		assert.Contains(t, w.Health().DoorbellErr, "unknown")
		s.set(func(s *stub) { s.checkNode = "n1" })
		after(5 * time.Second)
		assert.Equal(t, Node{Name: "n1", Address: "192.0.2.1"}, w.Snapshot().Node)
		assert.Empty(t, w.Health().DoorbellErr)
		after(5 * time.Minute)
		assert.Equal(t, 1, s.seen().selves, "all is known")
	})
}

func TestNodeIsAskedAgainAfterTheAgentWasAway(t *testing.T) {
	s := &stub{selfNode: Node{Name: "n1", Address: "192.0.2.1"}}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		s.set(func(s *stub) { s.err = status(500) })
		after(10 * time.Second)
		s.set(func(s *stub) { s.err = nil; s.selfNode = Node{Name: "n1", Address: "192.0.2.2"} })
		after(10 * time.Second)
		assert.Equal(t, "192.0.2.2", w.Snapshot().Node.Address)
	})
}

// One answer that was an error, long ago or just after the agent was back, is no reason
// to go by what was known before.
func TestTheNodeIsAskedForAlsoAfterAnError(t *testing.T) {
	home, moved := Node{Name: "n1", Address: "192.0.2.1"}, Node{Name: "n1", Address: "192.0.2.2"}
	for name, sick := range map[string]func(s *stub){
		"at the start":  func(s *stub) { s.selfErr = status(http.StatusInternalServerError) },
		"on its return": func(s *stub) { s.selfNode = home },
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{}
			sick(s)
			inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
				after(time.Second)
				s.set(func(s *stub) { s.selfErr, s.selfNode = nil, home })
				after(selfErrorPause + 2*time.Second)
				assert.Equal(t, home, w.Snapshot().Node)
				s.set(func(s *stub) { s.err = status(http.StatusInternalServerError) })
				after(10 * time.Second)
				s.set(func(s *stub) { s.err, s.selfErr = nil, status(http.StatusInternalServerError) })
				after(6 * time.Second)
				s.set(func(s *stub) { s.selfErr, s.selfNode = nil, moved })
				after(selfErrorPause + 6*time.Second)
				assert.Equal(t, moved, w.Snapshot().Node)
			})
		})
	}
}

// The doorbell tells the address where agent/self does not, and only until that does: it
// may be out of order since it told one.
func TestTheNewestWordOfTheAddressCounts(t *testing.T) {
	home, moved := Node{Name: "n1", Address: "192.0.2.1"}, Node{Name: "n1", Address: "192.0.2.2"}
	sick := status(http.StatusInternalServerError)
	s := &stub{selfNode: home}
	rung := false
	s.bell = func(context.Context, uint64) (ring, error) {
		if rung {
			return ring{}, sick
		}
		rung = true
		return ring{node: home, index: 7}, nil
	}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(10 * time.Second)
		assert.Equal(t, home, w.Snapshot().Node)
		s.set(func(s *stub) { s.err, s.selfNode = sick, moved })
		after(10 * time.Second)
		s.set(func(s *stub) { s.err = nil })
		after(20 * time.Second)
		assert.Equal(t, moved, w.Snapshot().Node)
		s.set(func(s *stub) { s.err, s.selfErr = sick, sick })
		after(7 * time.Second)
		s.set(func(s *stub) { s.err = nil })
		for range 80 {
			after(100 * time.Millisecond)
			require.Equal(t, moved, w.Snapshot().Node)
		}
	})
}

// A token that may not ask for the node, or not any more, leaves it to the doorbell.
func TestTheDoorbellsAddressBeatsWhatWasKnownBefore(t *testing.T) {
	home, moved := Node{Name: "n1", Address: "192.0.2.1"}, Node{Name: "n1", Address: "192.0.2.2"}
	s, told := &stub{selfNode: home}, make(chan Node)
	s.bell = func(ctx context.Context, index uint64) (ring, error) {
		select {
		case node := <-told:
			return ring{node: node, index: index + 1}, nil
		case <-ctx.Done():
			return ring{}, ctx.Err()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		told = make(chan Node)
		w := newWatcher(Config{PollInterval: time.Second}, s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		after(5 * time.Second)
		assert.Equal(t, home, w.Snapshot().Node)
		s.set(func(s *stub) { s.err, s.selfErr = status(http.StatusInternalServerError), status(http.StatusForbidden) })
		after(10 * time.Second)
		s.set(func(s *stub) { s.err = nil })
		told <- moved
		after(10 * time.Second)
		assert.Equal(t, moved, w.Snapshot().Node)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestUnknownNodeIsAskedForOnceAMinute(t *testing.T) {
	s := &stub{selfErr: status(http.StatusForbidden)}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(5*time.Minute + 30*time.Second)
		assert.InDelta(t, 5, s.seen().selves, 1)
		assert.Equal(t, Node{}, w.Snapshot().Node)
	})
}

// A daemon that starts with a token that has just been replaced learns the node as
// soon as it has the new one.
func TestTheNodeIsAskedForSoonAfterATokenWasUnknown(t *testing.T) {
	s := &stub{selfErr: fmt.Errorf("asking: %w", api.StatusError{Code: http.StatusForbidden, Body: "ACL not found"})}
	inFakeTime(t, s, Config{}, func(t *testing.T, w *Watcher) {
		after(time.Second)
		assert.Equal(t, Node{}, w.Snapshot().Node)
		s.set(func(s *stub) { s.selfErr = nil; s.selfNode = Node{Name: "n1", Address: "192.0.2.1"} })
		after(selfErrorPause + 2*time.Second)
		assert.Equal(t, "192.0.2.1", w.Snapshot().Node.Address)
	})
}
