package checks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestQueuesShareTheWorkers(t *testing.T) {
	var q queues
	for i := range 6 {
		q.put(fmt.Sprint("urgent", i), urgently)
		q.put(fmt.Sprint("lazy", i), lazily)
		q.put(fmt.Sprint("new", i), newly)
	}
	assert.Len(t, q.all(), 18)
	var order []string
	for !q.empty() {
		id, from := q.pop()
		order = append(order, id)
		q.wrote(from)
	}
	assert.Equal(t, []string{
		"urgent0", "urgent1", "lazy0", "urgent2", "urgent3", "lazy1", "urgent4", "urgent5", "new0",
		"lazy2", "lazy3", "new1", "lazy4", "lazy5", "new2", "new3", "new4", "new5",
	}, order)
	_, from := q.pop()
	assert.Equal(t, nowhere, from)
}

// Reads that hang after a change of the token must not let checks expire.
func TestANewTokenIsWaitedForNoLongerThanARefresh(t *testing.T) {
	m, _, _ := settledManager(t)
	m.config.ReadAgain = func() {}
	m.Reregister()
	_, ok := m.take(m.unread.Add(m.config.TTL/3 - 1))
	assert.False(t, ok)
	_, ok = m.take(m.unread.Add(m.config.TTL / 3))
	assert.True(t, ok)
	m.unread, m.held = time.Time{}, time.Time{}
	_, ok = m.take(time.Now())
	assert.True(t, ok)
}
