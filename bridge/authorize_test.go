package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

// aclAgent is an agent that answers about tokens: its default token, like the
// daemon's, may write everything.
type aclAgent struct {
	*httptest.Server
	mu sync.Mutex
	// tokens are those that the servers know, with what each may write.
	tokens map[string]string
	// statuses replace answers, by path.
	statuses map[string]int
	// down says that the servers are away: the agent then denies what it does not
	// remember, and says nothing of why.
	down bool
	// batches are the numbers of questions that came at a time.
	batches []int
}

func newACLAgent(t *testing.T) *aclAgent {
	a := &aclAgent{tokens: map[string]string{"daemon": "*", "webs": "web"}, statuses: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/internal/acl/authorize", a.authorize)
	mux.HandleFunc("GET /v1/acl/token/self", a.self)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func (a *aclAgent) begin(w http.ResponseWriter, r *http.Request) (may string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.statuses[r.URL.Path]; s != 0 {
		w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
		w.WriteHeader(s)
		return "", false
	}
	token := r.Header.Get("X-Consul-Token")
	if token == "" {
		return "*", true
	}
	may, known := a.tokens[token]
	if !known && !a.down {
		http.Error(w, "ACL not found", http.StatusForbidden)
		return "", false
	}
	if a.down && r.Method == http.MethodGet {
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return "", false
	}
	return may, true
}

func (a *aclAgent) authorize(w http.ResponseWriter, r *http.Request) {
	may, ok := a.begin(w, r)
	if !ok {
		return
	}
	var questions []question
	_ = json.NewDecoder(r.Body).Decode(&questions)
	a.mu.Lock()
	a.batches = append(a.batches, len(questions))
	a.mu.Unlock()
	for i, q := range questions {
		questions[i].Allow = !a.down && (may == "*" || strings.HasPrefix(q.Segment, may))
	}
	_ = json.NewEncoder(w).Encode(questions)
}

func (a *aclAgent) self(w http.ResponseWriter, r *http.Request) {
	if _, ok := a.begin(w, r); ok {
		fmt.Fprintf(w, `{"SecretID": %q}`, r.Header.Get("X-Consul-Token"))
	}
}

// asker is an authorizer of an agent, in a daemon whose own token may write all.
func (a *aclAgent) asker(t *testing.T) *agentAuthorizer {
	t.Helper()
	tok, err := newToken("daemon", "")
	require.NoError(t, err)
	_, tr, err := newClient(ConsulConfig{Address: a.URL}, tok)
	require.NoError(t, err)
	t.Cleanup(func() { tr.current.Load().CloseIdleConnections() })
	return newAgentAuthorizer(tr, "", "")
}

func mustToken(t *testing.T, text string) hds.Token {
	t.Helper()
	token, err := hds.NewToken(text)
	require.NoError(t, err)
	return token
}

func TestTheTokenOfTheStreamIsAskedAbout(t *testing.T) {
	a := newACLAgent(t)
	auth := a.asker(t)
	allowed, err := auth.Authorize(t.Context(), mustToken(t, "webs"), []string{"web", "db"})
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"web": true, "db": false}, allowed)
	_, err = auth.Authorize(t.Context(), mustToken(t, "guessed"), []string{"web"})
	require.ErrorIs(t, err, hds.ErrUnknownToken)
	_, err = auth.Authorize(t.Context(), mustToken(t, "guessed"), nil)
	require.ErrorIs(t, err, hds.ErrUnknownToken)
	_, err = auth.Authorize(t.Context(), hds.Token{}, []string{"web"})
	require.ErrorContains(t, err, "no token", "the agent would answer by its default token")
}

func TestManyServicesAreAskedInBatches(t *testing.T) {
	a := newACLAgent(t)
	names := make([]string, 150)
	for i := range names {
		names[i] = fmt.Sprintf("web-%d", i)
	}
	allowed, err := a.asker(t).Authorize(t.Context(), mustToken(t, "webs"), names)
	require.NoError(t, err)
	assert.Len(t, allowed, 150)
	assert.True(t, all(allowed))
	assert.Equal(t, []int{64, 64, 22}, a.batches)
}

// What is no verdict must be an error, and never a yes or a no.
func TestWhatIsNoVerdict(t *testing.T) {
	const authorize, self = "/v1/internal/acl/authorize", "/v1/acl/token/self"
	for name, c := range map[string]struct {
		spoil func(*aclAgent)
		want  string
	}{
		"ACLs disabled":      {func(a *aclAgent) { a.statuses[authorize] = 401 }, "ACLs disabled"},
		"no such API":        {func(a *aclAgent) { a.statuses[authorize] = 404 }, "answers 404"},
		"the API is blocked": {func(a *aclAgent) { a.statuses[authorize] = 403 }, "refuses to say"},
		"an error":           {func(a *aclAgent) { a.statuses[authorize] = 500 }, "answers 500"},
		"a redirect":         {func(a *aclAgent) { a.statuses[authorize] = 307 }, "answers 307"},
		"the servers away":   {func(a *aclAgent) { a.down = true }, "answers 500"},
		"too many requests":  {func(a *aclAgent) { a.statuses[authorize] = 429 }, "answers 429"},
		"the agent away":     {func(a *aclAgent) { a.Close() }, "cannot be reached: connection refused"},
	} {
		a := newACLAgent(t)
		auth := a.asker(t)
		c.spoil(a)
		allowed, err := auth.Authorize(t.Context(), mustToken(t, "webs"), []string{"web"})
		require.ErrorContains(t, err, c.want, name)
		assert.NotErrorIs(t, err, hds.ErrUnknownToken, name)
		assert.Nil(t, allowed, name)
	}
	a := newACLAgent(t)
	a.statuses[self] = 401
	_, err := a.asker(t).Authorize(t.Context(), mustToken(t, "webs"), nil)
	require.ErrorIs(t, err, errNoACLs)
	assert.False(t, errors.Is(err, hds.ErrUnknownToken))
}
