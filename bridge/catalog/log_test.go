package catalog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
)

// text is a log that is read while it may be written to.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

// take returns what was written since the last call.
func (t *text) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.b.Reset()
	return t.b.String()
}

func (t *text) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: t, DisableTime: true})
}

func TestAnAgentThatCannotBeReadIsLoggedOnceAMinute(t *testing.T) {
	var log text
	s := &stub{err: errors.New("no route")}
	inFakeTime(t, s, Config{Logger: log.logger(), Node: Node{Name: "n1", Address: "192.0.2.1"}}, func(t *testing.T, _ *Watcher) {
		after(50 * time.Second)
		assert.Equal(t, "[WARN]  cannot read the Consul agent, its last state stands: error=\"no route\"\n", log.take())
		after(30 * time.Second)
		assert.Regexp(t, `^[^\n]* count=\d+\n$`, log.take())
		s.set(func(s *stub) { s.err = nil })
		after(10 * time.Second)
		assert.Equal(t, "[INFO]  synced with the Consul agent: node=n1 instances=0\n", log.take())
		after(time.Minute)
		assert.Empty(t, log.take(), "nothing else is said in the steady state")
	})
}

// bellOf answers as Consul does: the first question at once, the next when there is
// news.
func bellOf(ctx context.Context, index uint64) (ring, error) {
	if index > 0 {
		<-ctx.Done()
		return ring{}, ctx.Err()
	}
	return ring{node: Node{Name: "n1", Address: "192.0.2.1"}, index: 7}, nil
}

// Without agent:read, and before a check tells the node's name, there is nothing to
// ask the catalog for.
func TestADoorbellThatIsSilentForAMomentIsNoNews(t *testing.T) {
	var log text
	s := &stub{selfErr: status(403), listed: ids("a"), bell: bellOf}
	inFakeTime(t, s, Config{Logger: log.logger()}, func(t *testing.T, w *Watcher) {
		after(bellPatience / 2)
		assert.NotEmpty(t, w.Health().DoorbellErr)
		s.set(func(s *stub) { s.checked, s.checkNode = map[string]string{"c": "a"}, "n1" })
		after(time.Minute)
		assert.Empty(t, w.Health().DoorbellErr)
		assert.Equal(t, "[INFO]  synced with the Consul agent: instances=1\n", log.take())
	})
}

func TestADoorbellThatStaysSilentIsSaidOnce(t *testing.T) {
	var log text
	s := &stub{listed: ids("a")}
	s.bell = func(context.Context, uint64) (ring, error) { return ring{}, status(403) }
	inFakeTime(t, s, Config{Logger: log.logger(), Node: Node{Name: "n1"}}, func(t *testing.T, _ *Watcher) {
		after(bellPatience - time.Second)
		assert.NotContains(t, log.take(), "tell")
		after(5 * time.Minute)
		assert.Equal(t, 1, strings.Count(log.take(), "the catalog does not tell of changes"))
		s.set(func(s *stub) { s.bell = bellOf })
		after(time.Minute)
		assert.Equal(t, 1, strings.Count(log.take(), "the catalog tells of changes again"))
	})
}
