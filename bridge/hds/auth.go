package hds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

const (
	// tokenHeader is the metadata that holds an Envoy's token; Consul's own gRPC
	// API has it so.
	tokenHeader = "x-consul-token"
	// maxToken bounds a token; Consul makes UUIDs.
	maxToken = 512
	// authTimeout is how long an answer about a token may take.
	authTimeout = 5 * time.Second
)

// Authorizer says what the holder of a token may do. It is called from many
// goroutines, and has to end with ctx.
type Authorizer interface {
	// Authorize tells of each of the services whether the token may write it; of
	// no services it tells whether the token exists. The error is ErrUnknownToken
	// if it does not; any other says that nobody knows, and is no verdict.
	Authorize(ctx context.Context, token Token, services []string) (map[string]bool, error)
}

// ErrUnknownToken says that no such token exists, or none any more.
var ErrUnknownToken = errors.New("the token is not known to Consul")

var (
	errNoToken   = errors.New("no token in the metadata " + tokenHeader)
	errBadTokens = fmt.Errorf("the metadata %s has to hold one token of at most %d visible ASCII characters", tokenHeader, maxToken)
)

// Token is an Envoy's ACL token. However it is printed, it is not shown.
type Token struct{ secret string }

// Secret is the token itself, for asking Consul and for nothing else.
func (t Token) Secret() string { return t.secret }

// Format implements fmt.Formatter.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(hidden)") }

// NewToken makes a token of text that a header of HTTP carries as it is. An
// agent answers a request without a token, and one whose token is blank, by its
// own default token; and "anonymous" is how Consul spells having none. Neither
// is ever to be asked about.
func NewToken(text string) (Token, error) {
	strange := strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	switch {
	case text == "" || text == "anonymous":
		return Token{}, errNoToken
	case strange || len(text) > maxToken:
		return Token{}, errBadTokens
	}
	return Token{text}, nil
}

// tokenOf is the token that a stream's metadata holds.
func tokenOf(ctx context.Context) (Token, error) {
	switch values := metadata.ValueFromIncomingContext(ctx, tokenHeader); len(values) {
	case 0:
		return Token{}, errNoToken
	case 1:
		return NewToken(values[0])
	}
	return Token{}, errBadTokens
}

// authenticate refuses a stream without a token that exists, before a word of it
// is read.
func (s *Server) authenticate(ctx context.Context) (Token, error) {
	if s.config.Authorizer == nil {
		return Token{}, nil
	}
	token, err := tokenOf(ctx)
	if err != nil {
		return Token{}, refused(reasonToken, codes.Unauthenticated, err)
	}
	_, err = s.ask(ctx, token, nil)
	return token, err
}

// authorize says which of the services that an Envoy is to observe its token may
// write. A token that may write none of them is refused.
func (s *Server) authorize(ctx context.Context, token Token, ident identity) (map[string]bool, error) {
	if s.config.Authorizer == nil {
		return nil, nil
	}
	services := s.plan.Load().services(ident)
	allowed, err := s.ask(ctx, token, services)
	if err != nil {
		return nil, err
	}
	for _, name := range services {
		if allowed[name] {
			return allowed, nil
		}
	}
	if len(services) > 0 {
		return nil, refused(reasonPermission, codes.PermissionDenied,
			fmt.Errorf("the token may write none of the services that %q is to observe: it needs service:write on %s", ident.id, Some(services, 5)))
	}
	return map[string]bool{}, nil
}

// ask asks about a token, and makes of the answer what a stream is told.
func (s *Server) ask(ctx context.Context, token Token, services []string) (map[string]bool, error) {
	asking, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	allowed, err := s.config.Authorizer.Authorize(asking, token, services)
	switch {
	case errors.Is(err, ErrUnknownToken):
		s.noteAuth(nil)
		return nil, refused(reasonToken, codes.Unauthenticated, ErrUnknownToken)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx) // the Envoy has gone: nobody's trouble
	case err != nil:
		s.noteAuth(err)
		return nil, refused(reasonConsul, codes.Unavailable, fmt.Errorf("cannot ask Consul about the token: %w", err))
	}
	s.noteAuth(nil)
	return allowed, nil
}

// noteAuth remembers whether tokens can be asked about.
func (s *Server) noteAuth(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authErr, s.authAt = err, time.Now()
}

// AuthError is why the newest question about a token has no answer; nil if it has
// one, or nobody has asked for a minute.
func (s *Server) AuthError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.authAt) > time.Minute {
		return nil
	}
	return s.authErr
}

// Some lists the first few of many.
func Some(names []string, most int) string {
	if len(names) <= most {
		return fmt.Sprintf("%q", names)
	}
	return fmt.Sprintf("%q and %d more", names[:most], len(names)-most)
}
