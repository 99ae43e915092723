// Package statsd sends the metrics of a Prometheus registry to a statsd or a
// DogStatsD server: the registry stays the one place where anything is counted.
// docs/metrics.md says what becomes of names, labels and types.
package statsd

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// interval is the usual flush interval of statsd servers.
	interval = 10 * time.Second
	// dialTimeout bounds the look-up of the server's name.
	dialTimeout = 5 * time.Second
	// lastPass bounds the pass at the end, which is part of the daemon's shutdown.
	lastPass = 300 * time.Millisecond
	// writeTimeout bounds the writes of a pass: those to a unix socket wait where
	// the server does not read.
	writeTimeout = 200 * time.Millisecond
	// packetSize is what the statsd documentation calls safe for an Ethernet.
	packetSize = 1432
	unixScheme = "unix://"
)

// Config of a Sender.
type Config struct {
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// Address is the server's: host:port, or unix:// and the path of a datagram
	// socket.
	Address string
	// Dialect is what the server understands.
	Dialect Dialect
	Logger  hclog.Logger
	// Interval is the pause between two passes; 10 s when zero.
	Interval time.Duration
	// Dial connects to the server; that of net.Dialer when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Sender sends what has changed once in an interval. A server that is away is
// told of once, and harms nobody: like everything over UDP, what it misses is
// lost, except that increments wait until its name is found.
type Sender struct {
	config  Config
	sent    map[string]float64
	failing bool
}

// New makes a sender. It starts nothing and does not look for the server.
func New(config Config) *Sender {
	if config.Interval == 0 {
		config.Interval = interval
	}
	if config.Dial == nil {
		config.Dial = new(net.Dialer).DialContext
	}
	return &Sender{config: config, sent: map[string]float64{}}
}

// Run sends until ctx ends, and then once more, so that nothing that was counted
// is missing. It always returns nil.
func (s *Sender) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.tell(s.pass(ctx, dialTimeout))
		case <-ctx.Done():
			s.tell(s.pass(context.WithoutCancel(ctx), lastPass))
			return nil
		}
	}
}

// tell logs the first of several failures, and the end of them.
func (s *Sender) tell(err error) {
	switch {
	case err != nil && !s.failing:
		s.config.Logger.Warn("sending metrics failed, trying again", "address", s.config.Address, "error", err)
	case err == nil && s.failing:
		s.config.Logger.Info("sending metrics works again", "address", s.config.Address)
	}
	s.failing = err != nil
}

// pass sends all metrics. It connects anew, so that it follows the server's name
// to another address.
func (s *Sender) pass(ctx context.Context, patience time.Duration) error {
	families, err := s.config.Gatherer.Gather()
	if err != nil {
		return fmt.Errorf("gathering metrics: %w", err)
	}
	conn, err := s.dial(ctx, patience)
	if err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	out := &socket{conn: conn}
	// Nothing waits for the buffer's own timer: closing it sends the rest.
	buffer, err := statsd.NewBufferedSenderWithSender(out, time.Minute, packetSize)
	if err != nil {
		return err
	}
	client, err := statsd.NewClientWithSender(buffer, "", statsd.SuffixOctothorpe)
	if err != nil {
		return err
	}
	for _, family := range families {
		s.send(client.(statsd.ExtendedStatSender), family)
	}
	_ = client.Close() // out has the first error
	return out.err
}

func (s *Sender) dial(ctx context.Context, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	network, address := "udp", s.config.Address
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		network, address = "unixgram", path
	}
	conn, err := s.config.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(writeTimeout))
}

// socket is a connection as the client wants it. It keeps the first error, after
// which it sends nothing: each packet would fail alike.
type socket struct {
	conn net.Conn
	err  error
}

// Send writes a packet.
func (s *socket) Send(packet []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	var n int
	n, s.err = s.conn.Write(packet)
	return n, s.err
}

// Close closes the connection.
func (s *socket) Close() error { return s.conn.Close() }
