package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The floor is the same blocking query, asked by a bare client.
func TestARegistrationIsASpecifierAtOnce(t *testing.T) {
	w := newWorld(t, "consul {\n  poll_interval = \"60s\"\n}\n")
	l := w.lie(theNode, 40)
	w.register("first-1", 8080, map[string]string{"hds": "http"})
	l.awaits(t, "hds:first-1@")

	var delays []time.Duration
	for i := range 20 {
		time.Sleep(500 * time.Millisecond) // nothing is gathered with the one before
		id := fmt.Sprintf("web-%d", i)
		rung := w.bell()
		w.register(id, 8080, map[string]string{"hds": "http"})
		floor := <-rung
		l.awaits(t, "hds:"+id+"@")
		delays = append(delays, time.Since(floor))
	}
	slices.Sort(delays)
	t.Logf("from the blocking query's answer to the specifier: p50 %s, max %s", delays[len(delays)/2], delays[len(delays)-1])
	assert.Less(t, delays[len(delays)/2], 100*time.Millisecond)
}

// bell asks for the next change of the node and tells when it was answered.
func (w *world) bell() <-chan time.Time {
	w.t.Helper()
	_, meta, err := w.client.Catalog().NodeServiceList(w.consul.NodeName(), nil)
	require.NoError(w.t, err)
	answered := make(chan time.Time, 1)
	go func() {
		q := (&api.QueryOptions{WaitIndex: meta.LastIndex, AllowStale: true}).WithContext(w.ctx)
		_, _, err := w.client.Catalog().NodeServiceList(w.consul.NodeName(), q)
		assert.NoError(w.t, err)
		answered <- time.Now()
	}()
	return answered
}

// awaits waits for a specifier that has a cluster of that prefix.
func (l *liar) awaits(t *testing.T, prefix string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case s := <-l.specifiers:
			if slices.ContainsFunc(s.ClusterHealthChecks, func(c *healthv3.ClusterHealthCheck) bool { return strings.HasPrefix(c.ClusterName, prefix) }) {
				return
			}
		case <-deadline:
			require.FailNow(t, "no specifier has a cluster "+prefix)
		}
	}
}

func TestWithoutNodeReadThePollServesAlone(t *testing.T) {
	t.Parallel() // the doorbell is tried again each ten seconds
	w := newConsul(t, withACLs)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "services", Rules: `service "web" { policy = "write" }`}, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(w.newToken("services").SecretID), 0o600))
	w.startDaemon(quick + fmt.Sprintf("consul {\n  token_file = %q\n  node_name  = %q\n}\n", file, w.consul.NodeName()))
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))

	metrics, err := w.daemon.Get(w.ctx, "/metrics")
	require.NoError(t, err)
	assert.Contains(t, string(metrics), "consul_hds_doorbell_up 0")
	w.eventually(patience, func() error {
		if n := strings.Count(w.daemon.Log(), "node:read is missing"); n != 1 {
			return fmt.Errorf("it is said %d times", n)
		}
		return nil
	})
	w.always(12*time.Second, func() error { // one more question, of which nothing is said
		if n := strings.Count(w.daemon.Log(), "node:read is missing"); n != 1 {
			return fmt.Errorf("it is said %d times", n)
		}
		return nil
	})
}
