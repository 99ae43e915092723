package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/consul-hds/consul-hds/bridge/admin"
	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/lookup"
	"github.com/consul-hds/consul-hds/bridge/probe"
	"github.com/consul-hds/consul-hds/bridge/telemetry"
	"github.com/consul-hds/consul-hds/bridge/telemetry/statsd"
)

// flushTimeout bounds the last writes at shutdown: with a second for the
// streams, half of one for statsd, and less for the rest, all of it fits into Nomad's kill_timeout of
// 5 s.
const flushTimeout = 2 * time.Second

// What becomes of the checks at an orderly end.
const (
	keepChecks   = "keep"
	removeChecks = "deregister"
	failChecks   = "critical"
)

// Bridge is the whole daemon. Reload may be called from any goroutine.
type Bridge struct {
	config  Config
	metrics *telemetry.Metrics
	token   *token
	watcher *catalog.Watcher
	server  *hds.Server
	manager *checks.Manager
	names   *lookup.Table[netip.Addr]
	files   *lookup.Table[[]byte]
	admin   *admin.Server
	senders []*statsd.Sender
	ring    *ring
	drift   *drift
	// transport is how all of them reach the agent.
	transport *transport
	// listenerTLS is nil where Envoys come without TLS.
	listenerTLS *listenerTLS

	// stopping says that the end has begun.
	stopping  atomic.Bool
	reloading sync.Mutex
}

// New makes a bridge. It starts nothing and touches nothing but the files of
// tokens and certificates.
func New(config Config) (*Bridge, error) {
	b := &Bridge{
		config: config, metrics: telemetry.New(config.Version),
		names: lookup.NewNames(net.DefaultResolver), files: lookup.NewFiles(),
	}
	for _, make := range []func() error{b.makeConsul, b.makeServer, b.makeAdmin, b.makeSenders} {
		if err := make(); err != nil {
			return nil, err
		}
	}
	b.ring = &ring{
		access: b.accessProblems,
		source: b.watcher, names: b.names, files: b.files, observers: b.server, writer: b.manager, gauges: b.metrics,
		logger: config.Logger.Named("ring"), settings: config.Settings,
		plan: hds.PlanConfig{
			NodeIDs: config.Settings.NodeIDs, ReportInterval: config.Settings.ReportInterval,
			Namespace: config.Consul.Namespace, Partition: config.Consul.Partition,
		},
		tracked: map[string]*tracked{}, arriving: map[string]bool{},
		problems: map[probe.Problem]bool{}, announcer: newAnnouncer(config.Logger.Named("ring")), overdue: map[uint64]bool{},
	}
	return b, nil
}

// makeConsul makes what reads from and writes to the agent.
func (b *Bridge) makeConsul() (err error) {
	c := b.config.Consul
	if b.token, err = newToken(c.Token, c.TokenFile); err != nil {
		return err
	}
	client, tr, err := newClient(c, b.token)
	if err != nil {
		return err
	}
	b.transport = tr
	b.drift = &drift{
		catalog: catalogStatuses(client, c.Namespace, c.Partition), found: b.metrics.CheckDrift,
		logger: b.config.Logger.Named("drift"),
		node: func() string {
			if s := b.watcher.Snapshot(); s != nil {
				return s.Node.Name
			}
			return ""
		},
	}
	b.watcher, err = catalog.New(catalog.Config{
		Client: client, Node: catalog.Node{Name: c.NodeName, Address: c.NodeAddress}, Namespace: c.Namespace, Partition: c.Partition,
		PollInterval: c.PollInterval, Logger: b.config.Logger.Named("catalog"), Metrics: b.metrics, Draw: b.config.Draw,
	})
	if err != nil {
		return err
	}
	b.manager, err = checks.New(checks.Config{
		Agent: checks.ConsulAgent{Client: client, Namespace: c.Namespace, Partition: c.Partition},
		TTL:   b.config.Settings.TTL, OrphanGrace: b.config.Settings.OrphanGrace,
		Bind: b.token.bind, ReadAgain: b.watcher.Refresh, Logger: b.config.Logger.Named("checks"), Metrics: b.metrics, Draw: b.config.Draw,
	})
	b.drift.writer = b.manager
	return err
}

// makeServer makes what serves Envoys.
func (b *Bridge) makeServer() (err error) {
	served := telemetry.NewCalls()
	if err := b.metrics.Registry().Register(served); err != nil {
		return fmt.Errorf("registering the gRPC metrics: %w", err)
	}
	h := b.config.HDS
	authorizer, err := b.makeAuthorizer()
	if err != nil {
		return err
	}
	newest, err := b.makeListenerTLS()
	if err != nil {
		return err
	}
	b.server, err = hds.New(hds.Config{
		Listen: h.Listen, SocketMode: h.SocketMode, SocketGID: h.SocketGID, MaxStreams: h.MaxStreams,
		TLS: newest, AllowedIdentities: h.TLS.AllowedIdentities, Authorizer: authorizer,
		Logger: b.config.Logger.Named("hds"), Metrics: b.metrics,
		Options:  []grpc.ServerOption{grpc.ChainStreamInterceptor(served.Stream), grpc.ChainUnaryInterceptor(served.Unary)},
		Register: served.Preset, Settled: hds.FreeMemory,
	})
	return err
}

// makeAdmin makes what serves people and scripts.
func (b *Bridge) makeAdmin() (err error) {
	a := b.config.Admin
	b.admin, err = admin.New(admin.Config{
		Listen: a.Listen, MetricsListen: a.MetricsListen, EnableDebug: a.EnableDebug,
		Backend: backend{b}, Metrics: b.metrics.Handler(), Logger: b.config.Logger.Named("admin"),
	})
	return err
}

// part is a goroutine of the bridge that can be ended by itself.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// stop ends a part and waits for it.
func (p part) stop() {
	p.cancel()
	<-p.done
}

// Run runs the bridge until ctx ends or a part of it fails, and then shuts down
// in order: watch, streams, last writes, metrics, admin. It returns nil after an orderly
// end. A second bridge of the same data directory is refused.
func (b *Bridge) Run(ctx context.Context) (err error) {
	l, err := takeLock(b.config.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	if l.unsigned != nil {
		b.config.Logger.Warn("the lock is held, but its file cannot say by whom", "error", l.unsigned)
	}

	failed := make(chan error, 8)
	start := func(run func(context.Context) error) part {
		ctx, cancel := context.WithCancel(context.Background())
		p := part{cancel, make(chan struct{})}
		go func() {
			defer close(p.done)
			if err := run(ctx); err != nil && ctx.Err() == nil {
				failed <- err
			}
		}()
		return p
	}
	adminPart := start(b.admin.Run)
	metrics := start(b.send)
	watch := start(b.watch)
	writes := start(b.manager.Run)
	streams := start(b.server.Run)

	select {
	case <-ctx.Done():
	case err = <-failed: // it is logged by who called
		b.config.Logger.Info("shutting down: a part has failed")
	}
	begin := time.Now()
	b.stopping.Store(true)
	watch.stop() // before the streams: their end is nobody's failure
	streams.stop()
	b.flush()
	writes.stop()
	metrics.stop()
	adminPart.stop()
	b.config.Logger.Info("shut down", "took", time.Since(begin).Round(time.Millisecond).String())
	return err
}

// watch runs what decides: the watcher, the token and the ring.
func (b *Bridge) watch(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.watcher.Run(ctx) })
	group.Go(func() error {
		b.token.watch(ctx, b.config.Logger, func() {
			b.ring.tokenChanged() // for a read that begins with the new one before all know of it
			b.manager.Hold()
		}, func() {
			b.ring.tokenChanged()
			b.manager.Reregister()
		})
		return nil
	})
	group.Go(func() error { return b.names.Run(ctx) })
	group.Go(func() error { return b.files.Run(ctx) })
	group.Go(func() error { b.ring.run(ctx); return nil })
	group.Go(func() error { b.drift.run(ctx); return nil })
	group.Go(func() error { b.transport.watch(ctx, b.config.Logger); return nil })
	group.Go(func() error { b.listenerTLS.watch(ctx, b.config.Logger); return nil })
	return group.Wait()
}

// flush writes for the last time: by default it refreshes what is fresh, so that
// a successor has a whole TTL.
func (b *Bridge) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var err error
	switch b.config.OnShutdown {
	case removeChecks:
		err = b.manager.Finish(ctx, true, "")
	case failChecks:
		err = b.manager.Finish(ctx, false, "consul-hds was shut down")
	default:
		err = b.manager.Flush(ctx)
	}
	if err != nil {
		b.config.Logger.Warn("not every check could be written before the end", "error", err)
	}
}

// Reload reads the settings anew and takes them over, and names what has changed
// and needs a restart. After an error the running settings stay. It may be called
// from any goroutine.
func (b *Bridge) Reload() (needRestart []string, err error) {
	b.reloading.Lock() // from reading to taking over, or an older file could win
	defer b.reloading.Unlock()
	s, needRestart, err := b.config.Reload()
	b.metrics.Reloaded(err)
	if err != nil {
		b.config.Logger.Error("reloading failed, keeping the running configuration", "error", err)
		return nil, fmt.Errorf("%w: %w", admin.ErrInvalid, err)
	}
	b.ring.reload(s)
	if len(needRestart) > 0 {
		b.config.Logger.Warn("some changes need a restart and are not taken over", "keys", needRestart)
	}
	b.config.Logger.Info("configuration reloaded")
	return needRestart, nil
}
