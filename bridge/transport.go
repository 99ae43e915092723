package bridge

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
)

// connections is how many the daemon may have to its agent: one for the
// doorbell, four for all else. An agent lets one address have 200, which
// everybody on the node shares (facts/consul.md 1.6).
const connections = 5

// transport is the HTTP transport to the agent, with TLS by files that may
// change while it is in use.
type transport struct {
	// socket is the path of the agent's unix socket, if it is reached by one.
	socket string
	tls    api.TLSConfig
	// base is the agent's URL without a path; basic is for a proxy before it.
	base  string
	basic *api.HttpBasicAuth

	current atomic.Pointer[http.Transport]
	// read is what the files held when they were loaded.
	read [3][]byte
}

// RoundTrip implements http.RoundTripper. After a failure no connection is used any
// more that was at rest: what has swallowed one, without a word, as a firewall does that
// forgets its flows, has swallowed them all, and the next request would hang as long.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tr := t.current.Load()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		tr.CloseIdleConnections()
	}
	return resp, err
}

// load takes over what the files hold, and tells whether that is new. After an
// error what was loaded before stays.
func (t *transport) load() (changed bool, err error) {
	now, err := pemFiles{t.tls.CAFile, t.tls.CertFile, t.tls.KeyFile}.read()
	if err != nil {
		return false, fmt.Errorf("reading the TLS files for Consul: %w", err)
	}
	old := t.current.Load()
	if old != nil && equal(now, t.read) {
		return false, nil
	}
	conf := t.tls
	conf.CAFile, conf.CertFile, conf.KeyFile = "", "", ""
	conf.CAPem, conf.CertPEM, conf.KeyPEM = now[0], now[1], now[2]
	made, err := t.make(&conf)
	if err != nil {
		return false, fmt.Errorf("reading the TLS files for Consul: %w", err)
	}
	t.read = now
	t.current.Store(made)
	if old != nil {
		old.CloseIdleConnections()
	}
	return true, nil
}

func (t *transport) make(conf *api.TLSConfig) (*http.Transport, error) {
	config, err := api.SetupTLSConfig(conf)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: 10 * time.Second,
		// The agent is on this node: packing and unpacking its lists would cost both
		// sides more than all else about them.
		DisableCompression: true,
		TLSClientConfig:    config,
		DialContext:        dialer.DialContext,
	}
	if t.socket != "" {
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", t.socket)
		}
	}
	return tr, nil
}

// watch reads the files again from time to time until ctx ends. Files that cannot
// be read leave the transport as it is; this is said once.
func (t *transport) watch(ctx context.Context, logger hclog.Logger) {
	if t.tls.CAFile == "" && t.tls.CertFile == "" {
		return
	}
	watchFiles(ctx, t.load,
		func() { logger.Info("the TLS files for Consul have changed and are in use") },
		func(err error) { logger.Warn("keeping the TLS files for Consul as they were", "error", err) })
}
