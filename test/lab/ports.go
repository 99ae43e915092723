package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Ports are taken from here: below the kernel's usual ephemeral range, from
// which outgoing connections could take a port while its server restarts.
const (
	portMin = 10000
	portMax = 30000
)

// Port reserves a port of 127.0.0.1 that is free for TCP and UDP. No other Lab
// on this machine gets it until this one is closed.
func (l *Lab) Port() (int, error) {
	start := rand.IntN(portMax - portMin)
	for i := range portMax - portMin {
		port := portMin + (start+i)%(portMax-portMin)
		reserved, ok := reserve(port)
		if !ok {
			continue
		}
		if !portFree(port) {
			_ = reserved.Close()
			continue
		}
		l.mu.Lock()
		l.ports = append(l.ports, reserved)
		l.mu.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", portMin, portMax)
}

// reserve claims a port among all labs of this machine by an abstract unix
// socket, which has the scope of ports (the network namespace), leaves no file
// and goes with its process.
func reserve(port int) (net.Listener, bool) {
	ln, err := net.Listen("unix", "@consul-hds/lab/port/"+strconv.Itoa(port))
	return ln, err == nil
}

// portFree says whether TCP and UDP could take the port. No child of this process
// is started meanwhile: between fork and exec it would have a copy of what tried
// the port, and so hold it.
func portFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	tcp, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	defer func() { _ = tcp.Close() }()
	udp, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return false
	}
	_ = udp.Close()
	return true
}

// Listen is net.Listen, for an address that this process may have listened at just
// now: a child that is between fork and exec has a copy of what was closed, and
// listens for the moment that is left to it.
func Listen(network, address string) (net.Listener, error) {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		ln, err := net.Listen(network, address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ln, err
		}
	}
}

// portsFor reserves one port for each name.
func (l *Lab) portsFor(names ...string) (map[string]int, error) {
	ports := map[string]int{}
	for _, name := range names {
		port, err := l.Port()
		if err != nil {
			return nil, err
		}
		ports[name] = port
	}
	return ports, nil
}

// loopback is the address of a port of 127.0.0.1.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
