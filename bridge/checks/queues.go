package checks

// queue is where a check waits for a worker; one that waits in a lower one may move
// to a higher one.
type queue int

const (
	nowhere queue = iota
	// lazily: refreshes, registrations of checks that are there, removals.
	lazily
	// newly: first registrations. A crowd of new instances holds up nobody's change.
	newly
	// urgently: what users have to know at once.
	urgently
)

// overtakes is how many writes of one queue may go before one that waits in the
// next: checks that change all the time, or fail all the time, let no other expire.
const overtakes = 2

// queues are the ids of checks that may need a write. Their order is urgently,
// lazily, newly.
type queues struct {
	urgent, lazy, fresh []string
	// overtaken is how many urgent writes there were since the last other one, and
	// passed how many lazy ones since the last first registration.
	overtaken, passed int
}

// put lets a check wait in a queue.
func (q *queues) put(id string, to queue) {
	switch to {
	case urgently:
		q.urgent = append(q.urgent, id)
	case newly:
		q.fresh = append(q.fresh, id)
	default:
		q.lazy = append(q.lazy, id)
	}
}

// all are the checks that wait.
func (q *queues) all() []string {
	return append(append(append([]string(nil), q.urgent...), q.lazy...), q.fresh...)
}

func (q *queues) empty() bool { return len(q.urgent)+len(q.lazy)+len(q.fresh) == 0 }

// pop takes the next id out, and tells which queue it waited in.
func (q *queues) pop() (id string, from queue) {
	switch {
	case len(q.urgent) > 0 && (q.overtaken < overtakes || len(q.lazy)+len(q.fresh) == 0):
		id, q.urgent = q.urgent[0], q.urgent[1:]
		return id, urgently
	case len(q.lazy) > 0 && (q.passed < overtakes || len(q.fresh) == 0):
		id, q.lazy = q.lazy[0], q.lazy[1:]
		return id, lazily
	case len(q.fresh) > 0:
		id, q.fresh = q.fresh[0], q.fresh[1:]
		return id, newly
	}
	return "", nowhere
}

// wrote notes that what came out of a queue was worth a write.
func (q *queues) wrote(from queue) {
	switch from {
	case urgently:
		q.overtaken++
	case lazily:
		q.overtaken, q.passed = 0, q.passed+1
	case newly:
		q.overtaken, q.passed = 0, 0
	}
}
