package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	clientTimeout = 10 * time.Second
	maxAnswer     = 64 << 20
)

// Client asks the API of a running daemon.
type Client struct {
	// Addr is the daemon's admin address, host:port.
	Addr string
}

// Status returns what GET /v1/status shows.
func (c Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.get(ctx, "/v1/status", &status)
	return status, err
}

// Explain returns what GET /v1/explain/<id> shows.
func (c Client) Explain(ctx context.Context, id string) (Explanation, error) {
	var e Explanation
	err := c.get(ctx, "/v1/explain/"+url.PathEscape(id), &e)
	return e, err
}

// get decodes the answer to a request for path. It opens a connection for it
// alone, and asks no proxy.
func (c Client) get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	target := "http://" + strings.TrimPrefix(c.Addr, "http://") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("asking the daemon at %s: %w", c.Addr, err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("asking the daemon at %s: %w", c.Addr, err)
	}
	defer response.Body.Close()
	if err := decode(response, out); err != nil {
		return fmt.Errorf("asking the daemon at %s: %w", c.Addr, err)
	}
	return nil
}

func decode(response *http.Response, out any) error {
	decoder := json.NewDecoder(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode == http.StatusOK {
		return decoder.Decode(out)
	}
	var refused struct{ Error string }
	if err := decoder.Decode(&refused); err != nil || refused.Error == "" {
		return fmt.Errorf("unexpected answer: %s", response.Status)
	}
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, strings.TrimPrefix(refused.Error, ErrNotFound.Error()+": "))
	}
	return fmt.Errorf("%s: %s", response.Status, refused.Error)
}
