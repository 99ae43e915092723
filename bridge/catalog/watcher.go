package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/consul-hds/consul-hds/bridge/logging"
)

// The paces of the watcher; see Watcher.
const (
	defaultPollInterval = time.Second
	maxReadBackoff      = 5 * time.Second
	minBackoff          = 250 * time.Millisecond
	// What is asked for is read bellBurst times in a row and then once in
	// bellSpacing: a registration is seen at once, a storm of them costs little.
	bellSpacing = 200 * time.Millisecond
	bellBurst   = 2
)

func newPace() *rate.Limiter { return rate.NewLimiter(rate.Every(bellSpacing), bellBurst) }

// Metrics is told what the watcher does. Its methods are called from several
// goroutines.
type Metrics interface {
	// SnapshotRead is called after each attempt to read a snapshot; a nil err
	// means that it was read and published.
	SnapshotRead(d time.Duration, err error)
	// Doorbell says whether the watcher is told of changes, or has to poll.
	Doorbell(available bool)
	// Instances is the number of instances of the newest snapshot.
	Instances(n int)
}

// Config is what a Watcher needs.
type Config struct {
	// Client speaks to the local agent. Token, TLS and pooling are its matter.
	// Its http.Client must have no Timeout, or one beyond the six minutes that a
	// blocking query may take. Required.
	Client *api.Client
	// Node is the node's name and address, if the operator gave them. Empty
	// fields are asked of the agent.
	Node Node
	// Namespace and Partition are passed to Consul when set.
	Namespace string
	Partition string
	// PollInterval is the pause from the end of one read to the next, when
	// nothing else asks for one. Default 1 s.
	PollInterval time.Duration
	// Logger is told of changes of state. Default: none.
	Logger hclog.Logger
	// Metrics may be nil.
	Metrics Metrics
	// Draw draws the random part of a pause, from 0 to below n. Default: by chance.
	// It is for tests that have to be the same twice, and is called by several
	// goroutines.
	Draw func(n time.Duration) time.Duration
}

// Health is the state of a Watcher at one moment.
type Health struct {
	// Synced is true if the newest attempt to read a snapshot succeeded.
	Synced bool
	// LastSync is the ReadAt of the newest snapshot, zero before the first.
	LastSync time.Time
	// Err says why Synced is false; empty before the first attempt has ended.
	Err string
	// TokenUnknown says that Err is Consul's not knowing the token: it was deleted
	// or has expired.
	TokenUnknown bool
	// DoorbellErr says why changes are found by polling only; empty while the
	// doorbell works, and before it has been tried.
	DoorbellErr string
}

// Watcher keeps the newest complete Snapshot of the local agent.
//
// The truth are agent/services and agent/checks: they know of registrations
// that the servers have not heard of, and cost the servers nothing. They cannot
// block, so a blocking query on the node's catalog entry serves as a doorbell,
// and a poll finds what rings no bell. A failed read is no snapshot; the
// one before stays. Its methods are safe for concurrent use.
type Watcher struct {
	config  Config
	agent   agent
	log     hclog.Logger
	lines   *logging.Limiter // of what may come and go
	metrics Metrics

	updates chan struct{} // a snapshot was published
	wake    chan struct{} // a read is wanted
	named   chan struct{} // the node was looked for, or has another name

	// Of the reading goroutine alone.
	pace    *rate.Limiter               // of reads that are asked for
	missing map[string]*missingInstance // by service id, in the last list
	self    *Node                       // what agent/self said; nil if it has to be asked
	askSelf time.Time                   // not before then
	denied  bool                        // that the token may not ask it was the last answer
	silent  bool                        // that the catalog does not tell of changes was logged

	mu         sync.Mutex
	snapshot   *Snapshot
	health     Health
	node       Node      // as told by config, agent/self or a check
	identified bool      // node was looked for
	catalog    string    // the node's address as the catalog tells it
	bellDown   time.Time // since when the doorbell does not work
}

// New makes a Watcher; Run sets it to work.
func New(config Config) (*Watcher, error) {
	if config.Client == nil {
		return nil, errors.New("catalog: a Consul client is required")
	}
	if config.PollInterval < 0 {
		return nil, errors.New("catalog: the poll interval is negative")
	}
	raw := &client{raw: config.Client.Raw(), namespace: config.Namespace, partition: config.Partition}
	return newWatcher(config, raw), nil
}

func newWatcher(config Config, source agent) *Watcher {
	if config.PollInterval == 0 {
		config.PollInterval = defaultPollInterval
	}
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	if config.Metrics == nil {
		config.Metrics = silent{}
	}
	if config.Draw == nil {
		config.Draw = rand.N[time.Duration]
	}
	return &Watcher{
		config:  config,
		agent:   source,
		log:     config.Logger,
		lines:   logging.NewLimiter(config.Logger, 1),
		metrics: config.Metrics,
		updates: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		named:   make(chan struct{}, 1),
		pace:    newPace(),
	}
}

// Run reads and rereads until ctx ends, and returns nil then. That Consul is
// away is no reason to return. Call it once.
func (w *Watcher) Run(ctx context.Context) error {
	var bell sync.WaitGroup
	bell.Go(func() { w.runDoorbell(ctx) })
	w.runReads(ctx)
	bell.Wait()
	return nil
}

// Updates gets a signal after a snapshot was published. Signals do not queue:
// one may stand for several snapshots, and Snapshot returns the newest.
func (w *Watcher) Updates() <-chan struct{} { return w.updates }

// Snapshot returns the newest complete snapshot, nil before the first.
func (w *Watcher) Snapshot() *Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot
}

// Health returns the present state of the watcher.
func (w *Watcher) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

// Refresh asks for a read soon, at the pace of the doorbell. It does not block.
func (w *Watcher) Refresh() { poke(w.wake) }

// runReads is the only reader, so reads are serial. A signal that comes during
// a read stays in the channel and causes one more.
func (w *Watcher) runReads(ctx context.Context) {
	retry := backoff{floor: max(w.config.PollInterval, minBackoff), ceiling: maxReadBackoff, draw: w.config.Draw}
	for {
		drain(w.wake)
		pause := draw(w.config.Draw).jitter(w.config.PollInterval)
		switch err := w.readOnce(ctx); {
		case err == nil:
			retry.reset()
		case !unreachable(err): // it costs an agent that is not there nothing, and checks may be lost when it is back
			pause = retry.next()
		}
		if !w.awaitNext(ctx, pause) {
			return
		}
	}
}

// awaitNext waits until the next read is due: after pause, or at the pace of
// those that are asked for.
func (w *Watcher) awaitNext(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-w.wake:
		return w.pace.Wait(ctx) == nil
	}
}

// silent is the Metrics of those who want none.
type silent struct{}

func (silent) SnapshotRead(time.Duration, error) {}
func (silent) Doorbell(bool)                     {}
func (silent) Instances(int)                     {}
