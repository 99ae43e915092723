package hds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// listenRetry is the pause between two tries to listen on an address that the
// machine does not have yet.
const listenRetry = time.Second

var errNotListening = errors.New("not listening yet")

// serve serves on every address until ctx ends or one of them fails.
func (s *Server) serve(ctx context.Context, g *grpc.Server) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, addr := range s.config.Listen {
		group.Go(func() error {
			l, err := s.listen(ctx, addr)
			if l == nil {
				return err
			}
			s.config.Logger.Info("listening for Envoys", "address", addr, "tls", l.Addr().Network() == "tcp" && s.config.TLS != nil)
			if err := g.Serve(bounded{l, s.connections}); !errors.Is(err, grpc.ErrServerStopped) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error { s.refusals.lines.Run(ctx); return nil })
	group.Go(func() error { s.turns.Run(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		s.lull.stop()
		s.endStreams()
		stop(g)
		return nil
	})
	return group.Wait()
}

// endStreams makes the streams end, and those that begin still.
func (s *Server) endStreams() {
	close(s.done)
	for _, o := range s.all() {
		o.replan()
	}
}

// stop ends the server; clients have a second to take notice.
func stop(g *grpc.Server) {
	forced := time.AfterFunc(time.Second, g.Stop)
	defer forced.Stop()
	g.GracefulStop()
}

// listen listens on one address. An address that does not exist yet, such as
// that of a bridge Nomad has still to make, is tried again.
func (s *Server) listen(ctx context.Context, addr string) (net.Listener, error) {
	for tries := 0; ; tries++ {
		l, err := s.listenOnce(addr)
		if err == nil {
			s.setWaiting(addr, nil)
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
		s.setWaiting(addr, fmt.Errorf("%s: %w", addr, err))
		if tries == 0 {
			s.config.Logger.Warn("the address does not exist yet, trying again", "address", addr, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(listenRetry):
		}
	}
}

func (s *Server) listenOnce(addr string) (net.Listener, error) {
	path, unix := strings.CutPrefix(addr, "unix://")
	if !unix {
		return net.Listen("tcp", addr)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := s.protect(path); err != nil {
		_ = l.Close() // what counts is why the socket cannot be used
		return nil, err
	}
	return l, nil
}

// protect gives a socket its group and mode. Before the mode is set, a socket
// cannot be connected to by more than its owner and what the umask lets.
func (s *Server) protect(path string) error {
	if s.config.SocketGID >= 0 {
		if err := os.Chown(path, -1, s.config.SocketGID); err != nil {
			return err
		}
	}
	return os.Chmod(path, os.FileMode(s.config.SocketMode))
}

// removeSocket removes what a daemon that died left behind: nothing but a
// socket, and none that somebody listens on.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close() // it was opened to see whether it can be
		return fmt.Errorf("%s: %w: another process listens on it", path, syscall.EADDRINUSE)
	}
	return os.Remove(path)
}

func (s *Server) setWaiting(addr string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.waiting, addr)
		return
	}
	s.waiting[addr] = err
}
