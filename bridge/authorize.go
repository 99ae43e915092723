package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

const (
	// authorizeBatch is how many questions an agent takes at once (Consul 1.13.9
	// refuses more than 64).
	authorizeBatch = 64
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

var (
	errNoACLs    = errors.New("the agent has ACLs disabled: hds.auth cannot be consul there")
	errForbidden = errors.New("the agent refuses to say what a token may do (403)")
)

// agentAuthorizer asks the local agent what the token of an Envoy may do. Each
// request carries that token, and never the daemon's.
type agentAuthorizer struct {
	transport            *transport
	client               *http.Client
	namespace, partition string
}

func newAgentAuthorizer(t *transport, namespace, partition string) *agentAuthorizer {
	return &agentAuthorizer{t, &http.Client{
		Transport: t,
		// A redirect would carry the token to wherever it leads.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, namespace, partition}
}

// Authorize implements hds.Authorizer. An agent whose servers are away answers
// that a token it does not remember may do nothing, so that a no counts only if
// the servers know the token (facts/consul.md 0.5, 3).
func (a *agentAuthorizer) Authorize(ctx context.Context, token hds.Token, services []string) (map[string]bool, error) {
	allowed := make(map[string]bool, len(services))
	forbidden := false
	for part := range slices.Chunk(services, authorizeBatch) {
		err := a.ask(ctx, token, part, allowed)
		if forbidden = errors.Is(err, errForbidden); forbidden {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(services) > 0 && !forbidden && all(allowed) {
		return allowed, nil
	}
	if err := a.exists(ctx, token); err != nil {
		return nil, err
	}
	if forbidden {
		return nil, errForbidden
	}
	return allowed, nil
}

func all(allowed map[string]bool) bool {
	for _, ok := range allowed {
		if !ok {
			return false
		}
	}
	return true
}

// question is one of what POST /v1/internal/acl/authorize takes, and with Allow
// what it answers. The API is that of Consul's own UI, and not documented.
type question struct {
	Resource, Access, Segment string
	Namespace                 string `json:",omitempty"`
	Partition                 string `json:",omitempty"`
	Allow                     bool   `json:",omitempty"`
}

// ask notes of each service whether the token may write it. What is not answered
// is a no.
func (a *agentAuthorizer) ask(ctx context.Context, token hds.Token, services []string, allowed map[string]bool) error {
	questions := make([]question, len(services))
	for i, name := range services {
		questions[i] = question{Resource: "service", Access: "write", Segment: name, Namespace: a.namespace, Partition: a.partition}
		allowed[name] = false
	}
	body, err := json.Marshal(questions)
	if err != nil {
		return fmt.Errorf("encoding the question: %w", err)
	}
	answer, status, err := a.do(ctx, http.MethodPost, "/v1/internal/acl/authorize", token, body)
	switch {
	case err != nil:
		return err
	case status == http.StatusForbidden:
		return errForbidden
	case status != http.StatusOK:
		return failure(status)
	}
	var answers []question
	if err := json.Unmarshal(answer, &answers); err != nil {
		return errors.New("the agent's answer about a token cannot be read")
	}
	for _, q := range answers {
		if _, asked := allowed[q.Segment]; asked && q.Resource == "service" && q.Access == "write" {
			allowed[q.Segment] = q.Allow
		}
	}
	return nil
}

// exists asks the servers for the token by itself.
func (a *agentAuthorizer) exists(ctx context.Context, token hds.Token) error {
	_, status, err := a.do(ctx, http.MethodGet, "/v1/acl/token/self", token, nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusForbidden || status == http.StatusNotFound:
		return hds.ErrUnknownToken
	case status != http.StatusOK:
		return failure(status)
	}
	return nil
}

// failure tells of a status without the answer's text, which nobody vouches for.
func failure(status int) error {
	if status == http.StatusUnauthorized {
		return errNoACLs
	}
	return fmt.Errorf("the agent answers %d %s", status, http.StatusText(status))
}

// do asks the agent with a token, and with nothing if there is none: it would
// answer by its own default token.
func (a *agentAuthorizer) do(ctx context.Context, method, path string, token hds.Token, body []byte) ([]byte, int, error) {
	if token.Secret() == "" {
		return nil, 0, errors.New("no token to ask about")
	}
	r, err := http.NewRequestWithContext(ctx, method, a.transport.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, errors.New("the agent's address cannot be asked")
	}
	if b := a.transport.basic; b != nil {
		r.SetBasicAuth(b.Username, b.Password)
	}
	r.Header.Set("X-Consul-Token", token.Secret())
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, 0, unreachable(err)
	}
	return answer, resp.StatusCode, nil
}

// unreachable is a failure to ask in words that stay the same while it lasts: it
// is shown as a problem.
func unreachable(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return fmt.Errorf("the agent cannot be reached: %w", number)
	}
	return errors.New("the agent gives no answer")
}
