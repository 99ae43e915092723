package admin

import (
	"bytes"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// turns lets one long answer be made at a time: those that grow with the node, and ask
// nobody. With 10,000 checks each takes tens of MB while it is made, and the daemon must
// not grow with those who ask.
type turns struct{ one *semaphore.Weighted }

func newTurns() turns { return turns{semaphore.NewWeighted(1)} }

// take makes the answers of a route one by one. What is made is sent after its turn: who
// reads slowly holds nobody up.
func (t turns) take(r route) route {
	next := r.handler
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made := answer{ResponseWriter: w, code: http.StatusOK}
		if !t.make(&made, next, r) {
			return // the client has gone
		}
		w.WriteHeader(made.code)
		_, _ = w.Write(made.body.Bytes()) // it may have gone now
	})
	return r
}

// make waits for a turn and makes an answer in it; false if nobody waits for it any more.
func (t turns) make(w *answer, next http.Handler, r *http.Request) bool {
	if t.one.Acquire(r.Context(), 1) != nil {
		return false
	}
	defer t.one.Release(1)
	next.ServeHTTP(w, r)
	return true
}

// answer is one that is kept until it is whole; its headers are those of the client's.
type answer struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
