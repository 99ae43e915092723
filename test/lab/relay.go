package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// Relay takes connections at one address and carries them to another, as the
// bridge of a Nomad group does with its ports. It takes them, and closes them at
// once, also while nobody listens there. It can be given a Trouble. It is safe for
// concurrent use.
type Relay struct {
	network, address string
	dial             func(context.Context) (net.Conn, error)
	cancel           context.CancelFunc
	ctx              context.Context
	running          sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	trouble  Trouble
	limits   [2]*rate.Limiter // by direction; nil without a Trouble.Rate
	changed  chan struct{}    // closed when the trouble changes
	open     map[*carriage]struct{}
	taken    int
}

// StartRelay starts a relay at host:port of the lab's own network, with an IP
// address as the host, to the same address in a namespace.
func (l *Lab) StartRelay(into *Namespace, address string) (*Relay, error) {
	return l.startRelay("tcp", address, func(ctx context.Context) (net.Conn, error) {
		return into.DialContext(ctx, "tcp", address)
	})
}

// StartLink starts a relay from one address to another, each host:port or
// unix:// and a path.
func (l *Lab) StartLink(from, to string) (*Relay, error) {
	network, address := networkOf(from)
	toNetwork, toAddress := networkOf(to)
	return l.startRelay(network, address, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, toNetwork, toAddress)
	})
}

func networkOf(address string) (network, rest string) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		return "unix", path
	}
	return "tcp", address
}

func (l *Lab) startRelay(network, address string, dial func(context.Context) (net.Conn, error)) (*Relay, error) {
	r := &Relay{network: network, address: address, dial: dial, changed: make(chan struct{}), open: map[*carriage]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.SetTrouble(Trouble{}); err != nil {
		return nil, err
	}
	l.onClose(r.Close)
	return r, nil
}

// Close closes the listener and all connections. Further calls do nothing.
func (r *Relay) Close() {
	r.cancel()
	r.mu.Lock()
	r.closeListener()
	r.mu.Unlock()
	r.running.Wait()
}

// SetTrouble replaces the trouble that the relay has, at once and for all its
// connections. It is an error if it cannot listen any more.
func (r *Relay) SetTrouble(t Trouble) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble, r.limits = t, t.limits()
	close(r.changed)
	r.changed = make(chan struct{})
	if t.Refuse {
		r.closeListener()
		for c := range r.open {
			c.close()
		}
		return nil
	}
	return r.listen()
}

// listen listens, unless it does.
func (r *Relay) listen() error {
	if r.listener != nil {
		return nil
	}
	if err := r.ctx.Err(); err != nil {
		return fmt.Errorf("the relay at %s is closed: %w", r.address, err)
	}
	listener, err := Listen(r.network, r.address)
	if err != nil {
		return fmt.Errorf("starting a relay: %w", err)
	}
	r.listener = listener
	r.running.Go(func() { r.run(listener) })
	return nil
}

func (r *Relay) closeListener() {
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
}

func (r *Relay) run(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.carry(conn) })
	}
}

// carry connects both sides until each has said its last, or the relay ends them.
func (r *Relay) carry(outside net.Conn) {
	c := r.newCarriage(outside)
	defer r.forget(c)
	t, ok := r.passable(c.ctx)
	if !ok {
		return
	}
	if t.Swallow {
		c.drain(outside) // nobody there hears of this connection
		return
	}
	inside, err := r.dial(c.ctx)
	if err != nil {
		return
	}
	defer context.AfterFunc(c.ctx, func() { _ = inside.Close() })()
	defer func() { _ = inside.Close() }()
	var both sync.WaitGroup
	both.Go(func() { c.pour(inside, outside, 0) })
	both.Go(func() { c.pour(outside, inside, 1) })
	both.Wait()
}

// newCarriage notes a connection that was taken.
func (r *Relay) newCarriage(outside net.Conn) *carriage {
	ctx, cancel := context.WithCancel(r.ctx)
	context.AfterFunc(ctx, func() { _ = outside.Close() })
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &carriage{relay: r, number: r.taken, ctx: ctx, close: cancel}
	r.taken++
	r.open[c] = struct{}{}
	if r.trouble.Refuse {
		cancel() // it was taken just before
	}
	return c
}

func (r *Relay) forget(c *carriage) {
	c.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// state is the trouble now, and what tells of the next.
func (r *Relay) state() (Trouble, [2]*rate.Limiter, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble, r.limits, r.changed
}

// passable waits for as long as the relay stalls, and returns the trouble then;
// false if ctx ends.
func (r *Relay) passable(ctx context.Context) (Trouble, bool) {
	for {
		t, _, changed := r.state()
		if !t.Stall {
			return t, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return t, false
		case <-changed:
		}
	}
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("it cannot be closed by half")
	}
	return half.CloseWrite()
}
