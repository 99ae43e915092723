package mesh

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// users is how many send requests through each entry at once.
	users = 4
	// usersRest is the pause of a user between two requests.
	usersRest = 20 * time.Millisecond
	// requestTimeout is when a user gives up.
	requestTimeout = 10 * time.Second
)

// Load is a steady number of users who send requests to the backends, by every
// entry of the mesh.
type Load struct {
	entries []Entry
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	traffic Traffic
}

// Answer is what became of a request.
type Answer struct {
	// Entry is the name of the entry.
	Entry string
	// At is when it came.
	At time.Time
	// By is the id of the backend.
	By string
	// Err is why it failed: any status but 200 is a failure.
	Err error
}

// StartLoad starts the users.
func (m *Mesh) StartLoad() *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{entries: m.Edge.Entries, cancel: cancel}
	for _, entry := range l.entries {
		client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: users}}
		for range users {
			l.running.Go(func() { l.use(ctx, client, entry) })
		}
	}
	return l
}

func (l *Load) use(ctx context.Context, client *http.Client, entry Entry) {
	for ctx.Err() == nil {
		by, err := Ask(context.WithoutCancel(ctx), client, entry.URL)
		l.note(Answer{Entry: entry.Name, By: by, Err: err})
		select {
		case <-ctx.Done():
		case <-time.After(usersRest):
		}
	}
	client.CloseIdleConnections()
}

// Ask sends a request, and returns the name of the app that has answered it. Any
// status but 200 is an error.
func Ask(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.200s", resp.Status, body)
	}
	return resp.Header.Get(lab.ServedBy), nil
}

func (l *Load) note(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.At = time.Now()
	l.traffic = append(l.traffic, a)
}

// Stop ends the load once all its requests are answered.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

// Since are the answers from a time on.
func (l *Load) Since(start time.Time) Traffic {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.traffic)
	for i > 0 && !l.traffic[i-1].At.Before(start) {
		i--
	}
	return slices.Clone(l.traffic[i:])
}

// calm is for how long a backend must have got nothing to be without traffic:
// at the pace of the load, a hundred requests through each entry.
const calm = time.Second

// AwaitNone waits until a backend has got nothing for a second, through no
// entry, while each was used.
func (l *Load) AwaitNone(ctx context.Context, backend string, within time.Duration) error {
	return lab.Eventually(ctx, within+calm, func() error {
		recent := l.Since(time.Now().Add(-calm))
		for _, entry := range l.entries {
			through := recent.Through(entry.Name)
			if n := len(through.By(backend)); n > 0 || len(through) == 0 {
				return fmt.Errorf("%d of %d answers through %s are by %s", n, len(through), entry.Name, backend)
			}
		}
		return nil
	})
}

// Uses is an error if a backend had a pause of a second or more since start,
// through any entry.
func (l *Load) Uses(backend string, start time.Time) error {
	since := l.Since(start)
	for _, entry := range l.entries {
		if pause := since.Through(entry.Name).By(backend).LongestPause(start); pause >= calm {
			return fmt.Errorf("%s got nothing through %s for %s, last failure: %w", backend, entry.Name, pause, since.lastError())
		}
	}
	return nil
}

// AwaitAll waits until each of some backends has answered through each entry
// within the last second.
func (l *Load) AwaitAll(ctx context.Context, within time.Duration, backends ...string) error {
	return lab.Eventually(ctx, within, func() error {
		recent := l.Since(time.Now().Add(-calm))
		for _, entry := range l.entries {
			for _, backend := range backends {
				through := recent.Through(entry.Name)
				if len(through.By(backend)) == 0 {
					return fmt.Errorf("none of %d answers through %s is by %s, last failure: %w", len(through), entry.Name, backend, recent.lastError())
				}
			}
		}
		return nil
	})
}
