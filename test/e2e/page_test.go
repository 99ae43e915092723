package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// transition is one of GET /v1/transitions: the contract, written down once more.
type transition struct {
	CheckID  string `json:"check_id"`
	From, To string
	Output   string
	Observer string
}

func (w *world) transitions() []transition {
	w.t.Helper()
	body, err := w.daemon.Get(w.ctx, "/v1/transitions")
	require.NoError(w.t, err)
	var history struct {
		Schema      int
		Transitions []transition
	}
	require.NoError(w.t, json.Unmarshal(body, &history))
	require.Equal(w.t, 1, history.Schema)
	return history.Transitions
}

func TestTransitionsAreRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_unhealthy_threshold": "1"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(503)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	subject := fmt.Sprintf("http GET http://127.0.0.1:%d/: ", one.Port())
	assert.Equal(t, []transition{
		{"hds:web-1", "passing", "critical", subject + "unhealthy" + w.code(503) + ", says Envoy " + theNode, theNode},
		{"hds:web-1", "critical", "passing", subject + "healthy, says Envoy " + theNode, theNode},
		{"hds:web-1", "", "critical", subject + "awaiting the first answer of a node Envoy", ""},
	}, w.transitions())
}

// The page shows what is in force, also after a reload, and no secret.
func TestTheConfigurationIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	const rule = `
service "web" {
  check "ready" {
    interval = %q
    http {
      method = "POST"
      header = { "Authorization" = ["Bearer hush-header"] }
      body   = "hush-body"
    }
  }
}
consul {
  token = "hush-token"
}
`
	w := newWorld(t, fmt.Sprintf(rule, "3s"))
	shows := func(interval string) error {
		body, err := w.daemon.Get(w.ctx, "/config")
		if err != nil {
			return err
		}
		assert.NotContains(t, string(body), "hush-")
		assert.Contains(t, string(body), w.daemon.AdminAddr())
		if want := "interval = &#34;" + interval + "&#34;"; !strings.Contains(string(body), want) {
			return fmt.Errorf("no %s in %s", want, body)
		}
		return nil
	}
	require.NoError(t, shows("3s"))
	require.NoError(t, w.daemon.WriteConfig(withNode(fmt.Sprintf(rule, "7s")+"admin {\n  listen = \"127.0.0.1:1\"\n}\n")))
	require.NoError(t, w.daemon.Signal(syscall.SIGHUP))
	w.eventually(patience, func() error { return shows("7s") })
}
