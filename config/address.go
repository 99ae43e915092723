package config

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Listener is one address to listen at, as net.Listen takes it.
type Listener struct {
	// Network is "unix" or "tcp".
	Network string
	// Address is a socket's path or host:port.
	Address string
}

// Listeners are the addresses of Listen. They are valid in a loaded
// configuration; what is not is left out.
func (h HDS) Listeners() []Listener {
	var out []Listener
	for _, s := range h.Listen {
		if l, _, err := parseListener(s); err == nil {
			out = append(out, l)
		}
	}
	return out
}

// Mode is SocketMode as a number.
func (h HDS) Mode() fs.FileMode {
	n, _ := strconv.ParseUint(h.SocketMode, 8, 32)
	return fs.FileMode(n) & fs.ModePerm
}

const unixScheme = "unix://"

// parseListener reads a listen address. Its canonical form is equal for
// addresses that cannot both be listened at.
func parseListener(s string) (l Listener, canonical string, err error) {
	if path, ok := strings.CutPrefix(s, unixScheme); ok {
		return Listener{Network: "unix", Address: path}, s, probe.CheckSocket(path)
	}
	addr, err := parseTCP(s)
	return Listener{Network: "tcp", Address: s}, addr.String(), err
}

// parseTCP reads host:port, the host an IP address or localhost: a name that
// has to be looked up could become another interface.
func parseTCP(s string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err1 := netip.ParseAddr(host)
	n, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err1 != nil || err2 != nil || n == 0 || ip.IsMulticast() {
		return netip.AddrPort{}, fmt.Errorf("%.80q is not a listen address: an IP address or localhost, with a port, such as 127.0.0.1:8510", s)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

func checkTCP(s string) error {
	_, err := parseTCP(s)
	return err
}

func checkAdmin(s string) error {
	addr, err := parseTCP(s)
	if err == nil && !addr.Addr().IsLoopback() {
		err = fmt.Errorf("%.80q is not allowed: it must be a loopback address, such as 127.0.0.1:8511", s)
	}
	return err
}

func checkListeners(list []string) error {
	for _, s := range list {
		if _, _, err := parseListener(s); err != nil {
			if !strings.HasPrefix(s, unixScheme) {
				return fmt.Errorf("%w, or unix:// and the path of a socket", err)
			}
			return err
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("an empty list is not allowed: at least one address")
	}
	return nil
}

// checkConsulAddress takes what Consul's own client takes, but no user
// information: a password would be shown with the address.
func checkConsulAddress(s string) error {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "http", s
	}
	bad := fmt.Errorf("this is no address of an agent: host:port, or http://, https:// or unix:// before it, without a user")
	switch scheme {
	case "unix":
		return probe.CheckSocket(rest)
	case "http", "https":
		u, err := url.Parse(scheme + "://" + rest)
		if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return bad
		}
		if p := u.Port(); p != "" {
			if n, err := strconv.Atoi(p); err != nil || probe.CheckPort(n) != nil {
				return bad
			}
		} else if !ok {
			return bad
		}
		return nil
	default:
		return bad
	}
}
