package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/lookup"
)

// filesEvery is how often the files of the token and of TLS are looked at.
const filesEvery = time.Second

// newClient makes the one client of the local agent that all parts share. What
// the config leaves unset comes from the CONSUL_* variables.
func newClient(c ConsulConfig, t *token) (*api.Client, *transport, error) {
	conf := api.DefaultConfig()
	if c.Address != "" {
		conf.Address = c.Address
	}
	socket := ""
	switch scheme, rest, ok := strings.Cut(conf.Address, "://"); {
	case ok && scheme == "unix":
		socket, conf.Address, conf.Scheme = rest, "localhost", "http"
	case ok:
		conf.Scheme, conf.Address = scheme, rest // what is said here beats CONSUL_HTTP_SSL
	}
	tr := &transport{socket: socket, tls: api.TLSConfig{
		Address: c.ServerName, CAFile: c.CAFile, CAPath: conf.TLSConfig.CAPath,
		CertFile: c.CertFile, KeyFile: c.KeyFile, InsecureSkipVerify: c.SkipVerify,
	}}
	tr.base, tr.basic = conf.Scheme+"://"+conf.Address, conf.HttpAuth
	if _, err := tr.load(); err != nil {
		return nil, nil, err
	}
	conf.HttpClient = &http.Client{Transport: catalog.Bodies{Next: withToken{tr, t}}}
	conf.Transport = nil
	// withToken decides. Without a token here, NewClient would read the file that
	// CONSUL_HTTP_TOKEN_FILE names, and fail if it cannot, although the config names another.
	conf.Token, conf.TokenFile = "replaced by withToken", ""
	client, err := api.NewClient(conf)
	if err != nil {
		return nil, nil, fmt.Errorf("making the Consul client: %w", err)
	}
	return client, tr, nil
}

// withToken puts the newest token on every request, or the one that its context is
// bound to.
type withToken struct {
	next  http.RoundTripper
	token *token
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Consul-Token")
	t, bound := r.Context().Value(tokenKey{}).(string)
	if !bound {
		t = w.token.get()
	}
	if t != "" {
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
	_, err := t.read(func() {})
	return t, err
}

func (t *token) get() string { return *t.value.Load() }

// tokenKey is the key of the token that a context is bound to.
type tokenKey struct{}

// bind binds the requests of a context to the token of now.
func (t *token) bind(ctx context.Context) context.Context {
	return context.WithValue(ctx, tokenKey{}, t.get())
}

// read takes over what the file holds, and tells whether that is new. It calls before
// while the token is still the one before.
func (t *token) read(before func()) (changed bool, err error) {
	b, err := lookup.ReadFile(t.file)
	if err != nil {
		return false, fmt.Errorf("reading the Consul token: %w", err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return false, fmt.Errorf("reading the Consul token: %w", errors.New(t.file+" is empty"))
	}
	if s == t.get() {
		return false, nil
	}
	before()
	t.value.Store(&s)
	return true, nil
}

// watch reads the file again from time to time until ctx ends, and calls before and
// changed before and after each new token. A file that cannot be read leaves the token
// as it is.
func (t *token) watch(ctx context.Context, logger hclog.Logger, before, changed func()) {
	if t.file == "" {
		return
	}
	watchFiles(ctx, func() (bool, error) { return t.read(before) }, func() {
		logger.Info("the Consul token has changed, registering every check again")
		changed()
	}, func(err error) { logger.Warn("keeping the Consul token as it is", "error", err) })
}

// watchFiles reads files again from time to time until ctx ends. It calls changed
// after each read that brought something new, and failed once for each new
// failure.
func watchFiles(ctx context.Context, read func() (bool, error), changed func(), failed func(error)) {
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		isNew, err := read()
		if isNew {
			changed()
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if err != nil && text != last {
			failed(err)
		}
		last = text
	}
}
