package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"
)

// Bodies is a transport that lets a Watcher read its lists as they come from the
// agent. consul/api decodes each answer as a whole, and offers no other way: of a
// list that has not changed that is all the work there is. A Watcher whose client
// has another transport works too, and costs more. It is safe for concurrent use
// if Next is.
type Bodies struct {
	// Next makes the requests.
	Next http.RoundTripper
}

// handover is where Bodies leaves the body of an answer, for whoever asked for it
// by the context of a request.
type handover struct{ body io.ReadCloser }

// handoverKey is its key in that context.
type handoverKey struct{}

// RoundTrip implements http.RoundTripper.
func (b Bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Next.RoundTrip(r)
	h, wanted := r.Context().Value(handoverKey{}).(*handover)
	if err != nil || !wanted || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	h.body = resp.Body
	resp.Body = io.NopCloser(strings.NewReader("null")) // for consul/api to decode
	return resp, nil
}

// open asks for an answer and gives its body, which the caller has to close
// before ctx ends.
func (c *client) open(ctx context.Context, endpoint string) (io.ReadCloser, error) {
	var h handover
	var decoded json.RawMessage
	if _, err := c.get(context.WithValue(ctx, handoverKey{}, &h), endpoint, &decoded, api.QueryOptions{}); err != nil {
		return nil, err
	}
	if h.body != nil {
		return h.body, nil
	}
	return io.NopCloser(bytes.NewReader(decoded)), nil
}
