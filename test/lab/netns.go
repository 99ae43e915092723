package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace with nothing but a loopback interface, as a
// group of Nomad's in bridge mode has one: what listens on 127.0.0.1 in it can be
// reached from within only. Nil is the lab's own network. It is safe for
// concurrent use.
type Namespace struct{ file *os.File }

// ErrNoNamespaces is the error of NewNamespace where this process may not make
// any.
var ErrNoNamespaces = errors.New("no network namespaces for this user: run as root, or by `unshare -r`")

// NewNamespace makes a network namespace, which lives as long as the lab or a
// process in it. It needs CAP_SYS_ADMIN, which root in a user namespace has too.
func (l *Lab) NewNamespace() (*Namespace, error) {
	n := &Namespace{}
	err := onThread(func() error {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if errors.Is(err, unix.EPERM) {
			return ErrNoNamespaces
		}
		if err == nil {
			err = raiseLoopback()
		}
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	l.onClose(func() { _ = n.file.Close() })
	return n, nil
}

// raiseLoopback does what `ip link set lo up` does, which not every machine has.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// onThread runs f on a thread of its own that ends with it, and that f may thus
// take to another network.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// enter takes the caller's thread, which has to be locked and to end with its
// goroutine, into the namespace.
func (n *Namespace) enter() error {
	if n == nil {
		return nil
	}
	return os.NewSyscallError("setns", unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))
}

// DialContext connects to an IP address as a process in the namespace does.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := onThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// httpClient is a client in the namespace, for requests after which the
// connection is closed.
func (n *Namespace) httpClient() *http.Client {
	if n == nil {
		return http.DefaultClient
	}
	return &http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
}
