package catalog

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/consul-hds/consul-hds/bridge/logging"
)

const (
	// bellWait is how long one query of the doorbell blocks. Consul adds up to a
	// sixteenth.
	bellWait = 5 * time.Minute
	// bellTimeout ends a query that should have been answered long ago.
	bellTimeout = bellWait + bellWait/16 + 10*time.Second
	// bellPause is the pause after an answer that no retry will mend.
	bellPause = 10 * time.Second
	// maxBellBackoff bounds the pause after errors.
	maxBellBackoff = 30 * time.Second
	// bellPatience is how long the doorbell has to be out of order to be worth a
	// line.
	bellPatience = 5 * time.Second
)

// errNodeHidden: Consul answers 200 with no node when the token lacks node:read,
// and when the servers do not know the node (facts/consul.md 2). It says nothing
// of the services.
var errNodeHidden = errors.New("the catalog does not show the node: node:read is missing, or it is not registered yet")

// errNodeUnnamed: without a name there is nothing to ask for.
var errNodeUnnamed = errors.New("the node's name is unknown: set consul.node_name, or give the token agent:read")

// doorbell is a blocking query on the node's catalog entry. Its answers are a
// signal and nothing more; what has changed is asked of the agent.
type doorbell struct {
	*Watcher
	index uint64
	pace  *rate.Limiter // of queries that are answered soon
	retry backoff
}

func (w *Watcher) runDoorbell(ctx context.Context) {
	bell := doorbell{Watcher: w, pace: newPace(), retry: backoff{floor: minBackoff, ceiling: maxBellBackoff, draw: w.config.Draw}}
	for ctx.Err() == nil {
		node := w.nodeTold().Name
		if node != "" {
			sleep(ctx, bell.once(ctx, node))
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.named:
			bell.reportUnnamed(ctx)
		}
	}
}

// reportUnnamed is for when the node was looked for: an unknown name before the
// first read has ended means nothing.
func (b *doorbell) reportUnnamed(ctx context.Context) {
	if b.nodeTold().Name == "" {
		b.report(ctx, errNodeUnnamed)
	}
}

// once asks for the next change and returns the pause before the next query.
func (b *doorbell) once(ctx context.Context, node string) time.Duration {
	start := time.Now()
	answer, err := b.ask(ctx, node)
	b.report(ctx, err)
	switch {
	case errors.Is(err, errNodeHidden), isStatus(err, http.StatusForbidden):
		b.index = 0
		return b.retry.draw.jitter(bellPause) + bellPause/10
	case err != nil:
		b.index = 0 // changes may be missed: the first answer rings
		return b.retry.next()
	}
	b.setCatalogAddress(answer.node.Address)
	return b.follow(answer.index, time.Since(start))
}

func (b *doorbell) ask(ctx context.Context, node string) (ring, error) {
	ctx, cancel := context.WithTimeout(ctx, bellTimeout)
	defer cancel()
	answer, err := b.agent.nodeServices(ctx, node, b.index, bellWait)
	if err == nil && answer.node.Name == "" {
		err = errNodeHidden
	}
	return answer, err
}

// follow rings if the index has moved and chooses the next one by the rules of
// blocking queries: lower than before, start anew at 0; zero, use 1. An answer
// that should have blocked and did not comes from something that is no Consul or
// is in trouble; each of these adds to the pause, so that none makes a hot loop.
func (b *doorbell) follow(index uint64, took time.Duration) time.Duration {
	last := b.index
	b.index = max(index, 1)
	early := index == last && took < bellWait/2
	if index != last {
		b.Refresh()
	}
	if 0 < index && index < last {
		b.index = 0
	}
	if index < last || index == 0 || early {
		return b.retry.next()
	}
	b.retry.reset()
	return b.pace.Reserve().Delay()
}

// report keeps the doorbell's state.
func (b *doorbell) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	b.metrics.Doorbell(err == nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.health.DoorbellErr, b.bellDown = "", time.Time{}
		return
	}
	b.health.DoorbellErr = err.Error()
	if b.bellDown.IsZero() {
		b.bellDown = time.Now()
	}
}

// sayDoorbell logs after a read whether the doorbell works, when that has changed
// and lasts: at the start of a node without agent:read, its name is known only when
// it has a check.
func (w *Watcher) sayDoorbell(now time.Time) {
	w.mu.Lock()
	down, why := w.bellDown, w.health.DoorbellErr
	w.mu.Unlock()
	switch {
	case w.silent && down.IsZero():
		w.silent = false
		w.lines.Log(now, hclog.Info, "bell", "the catalog tells of changes again")
	case !w.silent && !down.IsZero() && now.Sub(down) >= bellPatience:
		w.silent = true
		w.lines.Log(now, hclog.Info, "no bell", "the catalog does not tell of changes: they are found by polling only",
			logging.Known("error", why, "node_address", w.nodeNow().Address)...)
	}
}
