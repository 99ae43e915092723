package bridge

import (
	"context"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

// nowhere is an address that the machine does not have: who is to listen there
// goes on to try it and does nothing else, as nothing real may be waited for in a
// bubble.
const nowhere = "192.0.2.1:1"

// simDaemon is a whole bridge in the random world: all of it is real but the two
// wires, to the agent and from the Envoys.
type simDaemon struct {
	bridge *Bridge
	pipes  *bufconn.Listener
	// server holds what serves the Envoys, once that runs.
	server chan *grpc.Server
	cancel context.CancelFunc
	// ended is closed when Run has returned; err is what it returned.
	ended chan struct{}
	err   error
	// dead says that the daemon was killed. The goroutines of a bubble cannot be:
	// a dead daemon reaches nobody any more, and ends by itself.
	dead    atomic.Bool
	started time.Time
	// reads are the tokens with which it was shown the agent's checks, under the
	// agent's lock.
	reads map[string]bool
	// sighted is when it was shown any first, and could begin to ask Envoys.
	sighted time.Time
}

func (d *simDaemon) isDead() bool { return d.dead.Load() }

// newDaemon makes a bridge and cuts its wires; nothing runs yet.
func (s *scene) newDaemon() (*simDaemon, error) {
	s.daemons++
	d := &simDaemon{pipes: bufconn.Listen(1 << 16), server: make(chan *grpc.Server, 1), ended: make(chan struct{}), started: time.Now(), reads: map[string]bool{}}
	b, err := New(Config{
		Version: "test", Logger: hclog.NewNullLogger(), DataDir: filepath.Join(s.dir, strconv.Itoa(s.daemons)),
		Consul: ConsulConfig{Address: "http://agent.invalid", TokenFile: s.tokenFile, PollInterval: time.Second},
		HDS:    HDSConfig{Listen: []string{nowhere}, SocketGID: -1, MaxStreams: 64, Auth: AuthNone},
		Admin:  AdminConfig{Listen: nowhere}, OnShutdown: keepChecks, Settings: s.settings,
		Reload: func() (Settings, []string, error) { return s.settings, nil, nil },
		Draw:   drawByTime,
	})
	if err != nil {
		return nil, err
	}
	b.transport.current.Load().RegisterProtocol("http", linkTo(s.agent, d))
	b.server, err = hds.New(hds.Config{
		Listen: []string{nowhere}, SocketGID: -1, MaxStreams: 64, Logger: hclog.NewNullLogger(), Metrics: b.metrics,
		Register: func(g *grpc.Server) {
			d.server <- g
			s.running.Go(func() { _ = g.Serve(d.pipes) })
		},
	})
	b.ring.observers = b.server
	d.bridge = b
	return d, err
}

// drawByTime draws what depends on nothing but the moment: whoever asks first at
// one, all are told the same.
func drawByTime(n time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt(nil, time.Now().UnixNano(), 10))
	return time.Duration(h.Sum64() % uint64(n))
}

// run runs the daemon until it is stopped or killed.
func (d *simDaemon) run(s *scene) {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	s.running.Go(func() {
		defer close(d.ended)
		d.err = d.bridge.Run(ctx)
		_ = d.pipes.Close()
	})
}

// stop ends the daemon as SIGTERM does, and returns when it has ended.
func (d *simDaemon) stop() error {
	d.cancel()
	<-d.ended
	return d.err
}

// kill ends the daemon as SIGKILL does.
func (d *simDaemon) kill() {
	d.dead.Store(true)
	select {
	case g := <-d.server:
		g.Stop()
	case <-d.ended:
	}
	d.cancel()
}
