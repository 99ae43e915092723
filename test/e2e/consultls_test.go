package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// The agent wants a client certificate, and every file of TLS changes while the
// daemon runs.
func TestMutualTLSToTheAgent(t *testing.T) {
	t.Parallel()
	port, err := theLab.Port()
	require.NoError(t, err)
	ca := newAuthority(t)
	serverCert, serverKey := ca.issue("server.dc1.consul", "127.0.0.1")
	w := newConsul(t, lab.ConsulOptions{Config: fmt.Sprintf(`
ports {
  https = %d
}
tls {
  https {
    ca_file         = %q
    cert_file       = %q
    key_file        = %q
    verify_incoming = true
  }
}`, port, ca.ca(), serverCert, serverKey)})

	dir := t.TempDir()
	put := func(from, name string) string {
		t.Helper()
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		to := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(to, b, 0o600))
		return to
	}
	wrongCert, wrongKey := newAuthority(t).issue("client")
	clientCert, clientKey := ca.issue("client")
	args := []string{
		"-consul-address", fmt.Sprintf("https://127.0.0.1:%d", port), "-consul-tls-server-name", "server.dc1.consul",
		"-consul-tls-ca-file", put(ca.ca(), "ca.pem"),
		"-consul-tls-cert-file", put(wrongCert, "cert.pem"), "-consul-tls-key-file", put(wrongKey, "key.pem"),
	}
	d, err := theLab.StartDaemon(w.ctx, lab.DaemonOptions{Consul: w.consul, Config: withNode(quick), Args: args})
	require.NoError(t, err)
	w.daemon = d
	w.ends(d.Process)
	w.eventually(patience, func() error {
		s, err := d.Status(w.ctx)
		if err != nil || s.Consul.Error == "" {
			return fmt.Errorf("a stranger's certificate is no fault yet: %w", err)
		}
		return nil
	})
	require.False(t, w.status().Consul.Synced)

	put(clientCert, "cert.pem")
	put(clientKey, "key.pem")
	require.NoError(t, d.WaitReady(w.ctx))
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("garbage"), 0o600))
	time.Sleep(2500 * time.Millisecond)
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical)) // the files that were good are kept
}
