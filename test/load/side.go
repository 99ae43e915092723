package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// patience bounds every wait that is not itself measured.
const patience = time.Minute

// transport is how Envoys reach a server.
type transport string

// The transports.
const (
	plain  transport = "plain"
	socket transport = "unix"
	mutual transport = "mTLS"
)

// side is one of the two that are compared: a server in a process of its own.
type side struct {
	process *lab.Process
	// target is for gRPC, usage is where the server tells of itself.
	target, usageURL string
	tls              *tls.Config
}

// startSide starts a server, and waits until it answers.
func (b *bench) startSide(ctx context.Context, r role, t transport, endpoints int) (*side, error) {
	s := &side{}
	usage, err := b.freeAddress()
	if err != nil {
		return nil, err
	}
	s.usageURL = "http://" + usage
	address, err := b.addressOf(t, string(r))
	if err != nil {
		return nil, err
	}
	s.target = address
	env := []string{
		roleVariable + "=" + string(r), addressVariable + "=" + address, usageVariable + "=" + usage, endpointsVariable + "=" + strconv.Itoa(endpoints),
	}
	if t == mutual {
		dir, err := b.tlsDir()
		if err != nil {
			return nil, err
		}
		if s.tls, err = clientTLS(dir); err != nil {
			return nil, err
		}
		env = append(env, tlsVariable+"="+dir)
	}
	if s.process, err = b.lab.StartSelf(string(r), env...); err != nil {
		return nil, err
	}
	return s, lab.Eventually(ctx, patience, func() error {
		_, err := s.usage(ctx, 0, false)
		return err
	})
}

func (b *bench) freeAddress() (string, error) {
	port, err := b.lab.Port()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// addressOf is where a server can listen.
func (b *bench) addressOf(t transport, name string) (string, error) {
	if t != socket {
		return b.freeAddress()
	}
	port, err := b.lab.Port() // makes the name one of its own
	if err != nil {
		return "", err
	}
	path, err := b.lab.SocketPath(fmt.Sprint(name, port, ".sock"))
	return "unix://" + path, err
}

// tlsDir is the folder with the certificate.
func (b *bench) tlsDir() (string, error) {
	dir := b.lab.Path("tls")
	if err := os.Mkdir(dir, 0o700); os.IsExist(err) {
		return dir, nil
	} else if err != nil {
		return "", err
	}
	return dir, writeTLS(dir)
}

// usage is what the server has used once it has so many reports, after a
// collection if wanted.
func (s *side) usage(ctx context.Context, reports int64, collect bool) (u usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	url := fmt.Sprintf("%s/?reports=%d", s.usageURL, reports)
	if collect {
		url += "&gc=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return u, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return u, fmt.Errorf("%s: %s", s.process.Name(), resp.Status)
	}
	return u, json.NewDecoder(resp.Body).Decode(&u)
}

// connect connects an Envoy to the server.
func (s *side) connect(id string) (*envoy, error) { return connect(s.target, id, s.tls) }

// end ends the server.
func (s *side) end() { _ = s.process.Kill() }
