package bridge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/lookup"
)

// pemFiles are what a CA, a certificate and a key are read from, in this order.
// An empty path is none.
type pemFiles [3]string

// read reads the files.
func (p pemFiles) read() (held [3][]byte, err error) {
	for i, path := range p {
		if path == "" {
			continue
		}
		if held[i], err = lookup.ReadFile(path); err != nil {
			return held, err
		}
	}
	return held, nil
}

// equal says whether two readings are one.
func equal(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}

// listenerTLS is the TLS of the HDS listeners, by files that may change while it
// is in use.
type listenerTLS struct {
	files pemFiles
	// held is what the files held when they were taken over.
	held    [3][]byte
	current atomic.Pointer[tls.Config]
	// fault is why what the files hold now is not in use, nil if it is.
	fault atomic.Pointer[error]
}

// newListenerTLS reads the files for the first time.
func newListenerTLS(c HDSTLSConfig) (*listenerTLS, error) {
	l := &listenerTLS{files: pemFiles{c.ClientCAFile, c.CertFile, c.KeyFile}}
	if _, err := l.load(); err != nil {
		return nil, err
	}
	return l, nil
}

// CheckListenerTLS says whether the files of the HDS listeners' TLS can be used.
func CheckListenerTLS(c HDSTLSConfig) error {
	if c.CertFile == "" {
		return nil
	}
	_, err := newListenerTLS(c)
	return err
}

// load takes over what the files hold, and tells whether that is new. After an
// error what was loaded before stays.
func (l *listenerTLS) load() (changed bool, err error) {
	defer func() { l.fault.Store(&err) }()
	held, err := l.files.read()
	if err != nil {
		return false, fmt.Errorf("the TLS files of the HDS listeners: %w", err)
	}
	if l.current.Load() != nil && equal(held, l.held) {
		return false, nil
	}
	c, err := hds.ListenerTLS{ClientCA: held[0], Cert: held[1], Key: held[2]}.Config()
	if err != nil {
		return false, fmt.Errorf("the TLS files of the HDS listeners: %w", err)
	}
	l.held = held
	l.current.Store(c)
	return true, nil
}

// watch reads the files again from time to time until ctx ends. What was loaded
// before goes on while they cannot be used; this is said once.
func (l *listenerTLS) watch(ctx context.Context, logger hclog.Logger) {
	if l == nil {
		return
	}
	watchFiles(ctx, l.load,
		func() {
			logger.Info("the TLS files of the HDS listeners have changed: new connections are judged by them")
		},
		func(err error) { logger.Warn("keeping the TLS of the HDS listeners as it was", "error", err) })
}

// problem is what is wrong with the TLS of the listeners now, or nil.
func (l *listenerTLS) problem(now time.Time) error {
	if l == nil {
		return nil
	}
	if fault := l.fault.Load(); *fault != nil {
		return fmt.Errorf("%w: the TLS of before goes on", *fault)
	}
	leaf := l.current.Load().Certificates[0].Leaf
	return expired(leaf, now)
}

// expired says whether Envoys will refuse a certificate.
func expired(leaf *x509.Certificate, now time.Time) error {
	switch {
	case leaf == nil:
		return nil
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate of the HDS listeners has expired, on %s", leaf.NotAfter.UTC().Format(time.DateTime))
	case now.Before(leaf.NotBefore):
		return errors.New("the certificate of the HDS listeners is not valid yet")
	}
	return nil
}
