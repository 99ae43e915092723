package bridge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

const (
	// verdictKept is how long a verdict about a token serves other streams, and the
	// same one when it comes again.
	verdictKept = 5 * time.Second
	// verdictsKept bounds how many tokens are remembered of each sort.
	verdictsKept = 4096
	// strangersPerSecond is how many tokens that were never seen to exist may be
	// asked about in the long run; strangersAtOnce how many before that slows them
	// down: as many as there may be Envoys after a restart, and at least this.
	strangersPerSecond = 10
	strangersAtOnce    = 512
)

// errStrangers is why a token is not asked about for now.
var errStrangers = errors.New("too many unknown tokens are tried: a new one has to wait")

// cautiousAuthorizer keeps those who knock from becoming a storm on Consul: it
// remembers verdicts for a short time, by a hash of the token, and asks one
// question at a time for tokens that are known to exist, and one for all others.
// Those have to share what is left of a budget, in which no known token waits.
type cautiousAuthorizer struct {
	next hds.Authorizer
	// good are tokens that existed when they were asked about last; bad those that
	// did not, with the time. They do not push one another out.
	good            *lru.Cache[digest, verdict]
	bad             *lru.Cache[digest, time.Time]
	known, stranger *semaphore.Weighted
	budget          *rate.Limiter
}

// digest stands for a token.
type digest = [sha256.Size]byte

// verdict is what was said of a token.
type verdict struct {
	at      time.Time
	allowed map[string]bool
}

// newCautiousAuthorizer makes one for at most that many streams.
func newCautiousAuthorizer(next hds.Authorizer, streams int) (*cautiousAuthorizer, error) {
	good, err1 := lru.New[digest, verdict](max(verdictsKept, streams))
	bad, err2 := lru.New[digest, time.Time](verdictsKept)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("making the memory of tokens: %w", err)
	}
	return &cautiousAuthorizer{
		next: next, good: good, bad: bad, known: semaphore.NewWeighted(1), stranger: semaphore.NewWeighted(1),
		budget: rate.NewLimiter(strangersPerSecond, max(strangersAtOnce, streams)),
	}, nil
}

// Authorize implements hds.Authorizer.
func (c *cautiousAuthorizer) Authorize(ctx context.Context, token hds.Token, services []string) (map[string]bool, error) {
	d := sha256.Sum256([]byte(token.Secret()))
	if allowed, done, err := c.remembered(d, services); done {
		return allowed, err
	}
	turn := c.known
	if !c.good.Contains(d) {
		turn = c.stranger
		if !c.budget.Allow() {
			return nil, errStrangers
		}
	}
	if err := turn.Acquire(ctx, 1); err != nil {
		return nil, errors.New("too many questions about tokens are waiting for the agent")
	}
	defer turn.Release(1)
	if allowed, done, err := c.remembered(d, services); done { // it was asked meanwhile
		return allowed, err
	}
	at := time.Now() // of the question: the answer may be as old
	allowed, err := c.next.Authorize(ctx, token, services)
	switch {
	case errors.Is(err, hds.ErrUnknownToken):
		c.good.Remove(d)
		c.bad.Add(d, at)
	case err == nil:
		c.bad.Remove(d)
		c.good.Add(d, verdict{at, allowed})
	}
	return allowed, err
}

// remembered is the verdict on a token, if one is fresh and tells of all the
// services.
func (c *cautiousAuthorizer) remembered(d digest, services []string) (allowed map[string]bool, done bool, err error) {
	if at, ok := c.bad.Get(d); ok && time.Since(at) < verdictKept {
		return nil, true, hds.ErrUnknownToken
	}
	v, ok := c.good.Get(d)
	if !ok || time.Since(v.at) >= verdictKept {
		return nil, false, nil
	}
	allowed = make(map[string]bool, len(services))
	for _, name := range services {
		if allowed[name], ok = v.allowed[name]; !ok {
			return nil, false, nil
		}
	}
	return allowed, true, nil
}
