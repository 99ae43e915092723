package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowded is a backend that counts how many statuses are made at once.
type crowded struct {
	*fakeBackend
	now, most atomic.Int32
}

func (c *crowded) Status() Status {
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	time.Sleep(5 * time.Millisecond)
	c.now.Add(-1)
	return c.fakeBackend.Status()
}

func crowdedServer(t *testing.T, s Status) (*crowded, *httptest.Server) {
	t.Helper()
	b := &crowded{fakeBackend: &fakeBackend{status: s}}
	server, err := New(Config{Listen: "127.0.0.1:0", Backend: b, Metrics: http.NotFoundHandler()})
	require.NoError(t, err)
	listening := httptest.NewServer(server.Handler())
	t.Cleanup(listening.Close)
	return b, listening
}

func TestLongAnswersAreMadeOneByOne(t *testing.T) {
	b, s := crowdedServer(t, Status{})
	var asking sync.WaitGroup
	for i := range 10 {
		asking.Go(func() {
			resp, err := http.Get(s.URL + []string{"/", "/v1/status"}[i%2])
			if assert.NoError(t, err) {
				body, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Contains(t, resp.Header.Get("Content-Type"), []string{"text/html", "application/json"}[i%2])
				assert.NotEmpty(t, body)
			}
		})
	}
	asking.Wait()
	assert.EqualValues(t, 1, b.most.Load())
	http.DefaultClient.CloseIdleConnections()
}

// TestWhoDoesNotReadHoldsNobodyUp: neither one whose answer is made and does not leave,
// nor one who has gone before his turn.
func TestWhoDoesNotReadHoldsNobodyUp(t *testing.T) {
	_, s := crowdedServer(t, Status{Checks: []Check{{CheckID: "hds:a", Output: strings.Repeat("x", 16<<20)}}})
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1)) // its answer is on its way, and it takes no more of it
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/?status=passing", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()

	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	one := newTurns()
	require.True(t, one.one.TryAcquire(1))
	w := httptest.NewRecorder()
	one.take(get(func(*http.Request) (any, error) { return state{}, nil })).handler.ServeHTTP(w, r.WithContext(gone))
	assert.Empty(t, w.Body.String())
}
