package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// serverName is the address that the server of a relayed world gives to others. Its
// gossip is there itself, which is UDP, and a relay for its RPC.
const serverName = "127.0.21.3"

// links are the relays of a world.
type links []link

// link is a relay between two parts.
type link struct {
	name string
	// from is where the relay is, and to is where it leads.
	from, to string
	relay    *lab.Relay
}

// relayed has a relay in each link. Probes wait for longer than a second, which a
// delay takes there and back.
func relayed() setting {
	s := quick()
	s.name = "relayed"
	s.conf.Defaults.Timeout = 1500 * time.Millisecond
	return s.withRelays()
}

// relayedUsual has them with the defaults.
func relayedUsual() setting {
	s := usual()
	s.name = "relayed-defaults"
	return s.withRelays()
}

func (s setting) withRelays() setting {
	s.via = (*world).relayOf
	s.consuls = func(server, _ *lab.ConsulOptions) {
		server.Config = fmt.Sprintf("serf_lan = \"0.0.0.0\"\nadvertise_addr = %q\n", serverName)
	}
	return s
}

// relayOf is the address of a relay in a link, one for each address to which it
// leads.
func (w *world) relayOf(name, to string) (string, error) {
	w.linking.Lock()
	defer w.linking.Unlock()
	if n := slices.IndexFunc(w.links, func(l link) bool { return l.name == name && l.to == to }); n >= 0 {
		return w.links[n].from, nil
	}
	from, err := w.relayAddress(name, to)
	if err != nil {
		return "", err
	}
	relay, err := w.lab.StartLink(from, to)
	if err != nil {
		return "", err
	}
	w.closes = append(w.closes, func() error { relay.Close(); return nil })
	w.links = append(w.links, link{name, from, to, relay})
	return from, nil
}

// relayAddress is where the relay of a link listens.
func (w *world) relayAddress(name, to string) (string, error) {
	switch name {
	case linkNodeDaemon, linkSidecarDaemon:
		path, err := w.lab.SocketPath(name + ".sock")
		return "unix://" + path, err
	case linkAgentServer:
		_, port, err := net.SplitHostPort(to)
		return net.JoinHostPort(serverName, port), err
	}
	port, err := w.lab.Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// trouble gives a trouble to all relays of a link.
func (w *world) trouble(name string, t lab.Trouble) error {
	found := false
	for _, l := range w.links {
		if l.name == name {
			found = true
			if err := l.relay.SetTrouble(t); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("there is no relay in the link %s", name)
	}
	return nil
}
