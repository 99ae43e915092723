package catalog

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched is a body that knows whether it was read or closed.
type watched struct {
	io.Reader
	closed bool
}

func (w *watched) Close() error {
	w.closed = true
	return nil
}

// one answers every request with one status and body.
type one struct {
	status int
	body   *watched
}

// RoundTrip implements http.RoundTripper.
func (o one) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: o.status, Header: http.Header{}, Request: r, Body: o.body}, nil
}

func clientOver(t *testing.T, next http.RoundTripper) *client {
	t.Helper()
	c, err := api.NewClient(&api.Config{HttpClient: &http.Client{Transport: Bodies{next}}})
	require.NoError(t, err)
	return &client{raw: c.Raw()}
}

// What is no JSON shows that nobody has decoded it.
func TestABodyIsHandedOverAsItComes(t *testing.T) {
	body := &watched{Reader: strings.NewReader("as it comes")}
	got, err := clientOver(t, one{http.StatusOK, body}).open(t.Context(), "/v1/agent/services")
	require.NoError(t, err)
	assert.False(t, body.closed)
	text, err := io.ReadAll(got)
	require.NoError(t, err)
	assert.Equal(t, "as it comes", string(text))
	require.NoError(t, got.Close())
	assert.True(t, body.closed)
}

func TestTheBodyOfARefusalStaysInItsError(t *testing.T) {
	body := &watched{Reader: strings.NewReader("ACL not found")}
	_, err := clientOver(t, one{http.StatusForbidden, body}).open(t.Context(), "/v1/agent/services")
	require.ErrorContains(t, err, "ACL not found")
	assert.True(t, tokenUnknown(err))
	assert.True(t, body.closed)
}

// What nobody asked for in this way is for consul/api.
func TestOtherAnswersPass(t *testing.T) {
	body := &watched{Reader: strings.NewReader(`{"Config":{"NodeName":"n1"}}`)}
	node, err := clientOver(t, one{http.StatusOK, body}).self(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Node{Name: "n1"}, node)
	assert.True(t, body.closed)
}
