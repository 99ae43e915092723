package mesh

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTrafficIsToldApart(t *testing.T) {
	start := time.Now().Add(-10 * time.Second)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	traffic := Traffic{
		{Entry: "web", At: at(1), By: "a"},
		{Entry: "ingress", At: at(2), By: "b"},
		{Entry: "web", At: at(5), By: "a"},
		{Entry: "web", At: at(8), Err: errors.New("503")},
		{Entry: "web", At: at(9), By: "b"},
	}
	assert.Len(t, traffic.Through("web"), 4)
	assert.Len(t, traffic.Failed(), 1)
	assert.ErrorContains(t, traffic.lastError(), "503")
	assert.Equal(t, 5*time.Second, traffic.By("a").LastAfter(start))
	assert.Zero(t, traffic.By("c").LastAfter(start))
	assert.Equal(t, 7*time.Second, traffic.By("b").LongestPause(start))
	assert.Equal(t, 3*time.Second, traffic.LongestPause(at(1)))
	assert.InDelta(t, 5, traffic.By("a").LongestPause(start).Seconds(), 0.5, "until now")
	assert.InDelta(t, 10, traffic.By("c").LongestPause(start).Seconds(), 0.5)
}

func TestALoadTellsOfPauses(t *testing.T) {
	l := &Load{entries: []Entry{{Name: "web"}, {Name: "ingress"}}}
	start := time.Now()
	l.note(Answer{Entry: "web", By: "a"})
	assert.ErrorContains(t, l.AwaitAll(t.Context(), 0, "a"), "none of 0 answers through ingress is by a")
	l.note(Answer{Entry: "ingress", By: "a"})
	assert.NoError(t, l.AwaitAll(t.Context(), 0, "a"))
	assert.NoError(t, l.Uses("a", start))
	assert.ErrorContains(t, l.Uses("a", start.Add(-calm)), "a got nothing through web for 1")
	assert.ErrorContains(t, l.Uses("b", start.Add(-calm)), "b got nothing through web")
	assert.Empty(t, l.Since(time.Now()))
	assert.Len(t, l.Since(start), 2)
}
