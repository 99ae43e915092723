package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
)

const (
	// connections is how many the daemon may have to its agent: one for the
	// doorbell, four for all else. An agent lets one address have 200, which
	// everybody on the node shares (facts/consul.md 1.6).
	connections = 5
	// tokenEvery is how often the token's file is looked at.
	tokenEvery = time.Second
)

// newClient makes the one client of the local agent that all parts share. What
// the config leaves unset comes from the CONSUL_* variables.
func newClient(c ConsulConfig, t *token) (*api.Client, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	conf := api.DefaultConfig()
	if c.Address != "" {
		conf.Address = c.Address
	}
	if scheme, rest, ok := strings.Cut(conf.Address, "://"); ok && scheme != "unix" {
		conf.Scheme, conf.Address = scheme, rest // what is said here beats CONSUL_HTTP_SSL
	}
	if path, ok := strings.CutPrefix(conf.Address, "unix://"); ok {
		conf.Address, conf.Scheme = "localhost", "http"
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", path)
		}
	}
	tls, err := api.SetupTLSConfig(&api.TLSConfig{
		Address: c.ServerName, CAFile: c.CAFile, CAPath: conf.TLSConfig.CAPath,
		CertFile: c.CertFile, KeyFile: c.KeyFile, InsecureSkipVerify: c.SkipVerify,
	})
	if err != nil {
		return nil, fmt.Errorf("reading the TLS files for Consul: %w", err)
	}
	transport.TLSClientConfig = tls
	conf.HttpClient = &http.Client{Transport: withToken{transport, t}}
	conf.Transport = nil
	conf.Token, conf.TokenFile = "", ""
	client, err := api.NewClient(conf)
	if err != nil {
		return nil, fmt.Errorf("making the Consul client: %w", err)
	}
	return client, nil
}

// withToken puts the newest token on every request.
type withToken struct {
	next  http.RoundTripper
	token *token
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Consul-Token")
	if t := w.token.get(); t != "" {
		r.Header.Set("X-Consul-Token", t)
	}
	return w.next.RoundTrip(r)
}

// token is the ACL token: fixed, or what a file holds.
type token struct {
	file  string
	value atomic.Pointer[string]
}

// newToken reads the token for the first time.
func newToken(value, file string) (*token, error) {
	t := &token{file: file}
	t.value.Store(&value)
	if file == "" {
		return t, nil
	}
	_, err := t.read()
	return t, err
}

func (t *token) get() string { return *t.value.Load() }

// read takes over what the file holds, and tells whether that is new.
func (t *token) read() (changed bool, err error) {
	b, err := os.ReadFile(t.file)
	if err != nil {
		return false, fmt.Errorf("reading the Consul token: %w", err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return false, fmt.Errorf("reading the Consul token: %w", errors.New(t.file+" is empty"))
	}
	changed = s != t.get()
	t.value.Store(&s)
	return changed, nil
}

// watch reads the file again from time to time until ctx ends, and calls changed
// after each new token. A file that cannot be read leaves the token as it is.
func (t *token) watch(ctx context.Context, logger hclog.Logger, changed func()) {
	if t.file == "" {
		return
	}
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		isNew, err := t.read()
		if isNew {
			logger.Info("the Consul token has changed, registering every check again")
			changed()
		}
		if text := fmt.Sprint(err); err != nil && text != last {
			logger.Warn("keeping the Consul token as it is", "error", err)
			last = text
		} else if err == nil {
			last = ""
		}
	}
}
