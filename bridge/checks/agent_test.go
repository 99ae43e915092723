package checks_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// agentAt is the agent at an address.
func agentAt(t *testing.T, url string) checks.ConsulAgent {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: url, HttpClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	return checks.ConsulAgent{Client: client}
}

// kinds are what an error of an Agent can be told apart by.
func kinds(err error) (out []error) {
	for _, kind := range []error{checks.ErrUnknown, checks.ErrAway, checks.ErrDenied, checks.ErrUnsaved} {
		if errors.Is(err, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// What agents say that are older than the one of the end-to-end tests, or in
// distress.
func TestWhatAgentsAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
		kind []error
	}{
		"gone":            {404, "whatever", []error{checks.ErrUnknown}},
		"gone, old":       {500, `Unknown check "hds:a"`, []error{checks.ErrUnknown}},
		"no TTL check":    {500, `CheckID "hds:a" does not have associated TTL`, []error{checks.ErrUnknown}},
		"no service, old": {500, `ServiceID "a" does not exist`, []error{checks.ErrUnknown}},
		"denied":          {403, "Permission denied", []error{checks.ErrDenied}},
		"dead token":      {403, "ACL not found", []error{checks.ErrDenied}},
		"too many":        {429, "Your IP is issuing too many concurrent connections", nil},
		"refused":         {400, "Invalid check", nil},
		"broken":          {500, "No cluster leader", nil},
		"disk full":       {500, `failed persisting state for check "hds:a": failed writing temp file "x": no space left on device`, []error{checks.ErrUnsaved}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, test.body, test.code) }))
			defer s.Close()
			err := agentAt(t, s.URL).Update(t.Context(), "hds:a", health.Passing, "up")
			assert.ErrorContains(t, err, `updating check "hds:a"`)
			assert.ErrorContains(t, err, test.body)
			assert.Equal(t, test.kind, kinds(err))
		})
	}
}

func TestAnAgentThatDoesNotAnswerIsAway(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	a := agentAt(t, s.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := a.Deregister(ctx, "hds:a")
	assert.Equal(t, []error{checks.ErrAway}, kinds(err), "it hangs: %v", err)
	s.Close()
	err = a.Register(t.Context(), checks.Registration{CheckID: "hds:a", ServiceID: "a", TTL: time.Minute})
	assert.Equal(t, []error{checks.ErrAway}, kinds(err), "nothing listens: %v", err)
}
