// Package extras holds the tests that need what Debian has and the other tests
// do without: a browser, and promtool.
package extras

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// patience bounds the waits for Consul and Envoy.
const patience = 30 * time.Second

func TestTheConsulUIShowsTheCheck(t *testing.T) {
	ctx, cancel := lab.SignalContext(context.Background())
	defer cancel()
	l, err := lab.New(ctx, lab.Options{Progress: os.Stderr})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	consul, err := l.StartConsul(ctx, lab.ConsulOptions{NodeName: "node-1"})
	require.NoError(t, err)
	app, _ := startProbed(t, ctx, l, consul)
	becomes(t, ctx, consul, api.HealthPassing)

	browser := newBrowser(t, 1200, 1100)
	url := fmt.Sprintf("http://%s/ui/dc1/services/web/instances/node-1/web-1/health-checks", consul.HTTPAddr())
	_, err = chromedp.Run(browser, chromedp.Navigate(url))
	require.NoError(t, err)
	sees(t, browser, "Envoy HDS: http /", "healthy, says Envoy node-envoy", "hds:web-1")
	seesCheck(t, browser, "passing")
	picture(t, browser, "consul-ui-passing")

	app.SetStatus(503)
	becomes(t, ctx, consul, api.HealthCritical)
	_, err = chromedp.Run(browser, chromedp.Reload())
	require.NoError(t, err)
	sees(t, browser, "Envoy HDS: http /", "unhealthy")
	seesCheck(t, browser, "critical")
	picture(t, browser, "consul-ui-critical")
}

// startProbed starts a daemon, a node Envoy and an app that is registered as
// web-1.
func startProbed(t *testing.T, ctx context.Context, l *lab.Lab, consul *lab.Consul) (*lab.App, *lab.Daemon) {
	t.Helper()
	daemon, err := l.StartDaemon(ctx, lab.DaemonOptions{Consul: consul, Config: "hds {\n  node_ids = [\"node-envoy\"]\n}\n"})
	require.NoError(t, err)
	require.NoError(t, daemon.WaitReady(ctx))
	_, err = l.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: "node-envoy", HDSAddr: daemon.HDSAddr()})
	require.NoError(t, err)
	app, err := l.StartApp()
	require.NoError(t, err)
	require.NoError(t, consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1", Name: "web", Address: "127.0.0.1", Port: app.Port(), Meta: map[string]string{"hds": "http"},
	}))
	return app, daemon
}

func becomes(t *testing.T, ctx context.Context, consul *lab.Consul, status string) {
	t.Helper()
	require.NoError(t, lab.Eventually(ctx, patience, func() error {
		checks, _, err := consul.Client().Health().Checks("web", nil)
		if err == nil && (len(checks) != 1 || checks[0].Status != status) {
			err = fmt.Errorf("the checks are %v", checks)
		}
		return err
	}))
}

// seesCheck waits until the UI marks our check as it does those of a status.
func seesCheck(t *testing.T, browser context.Context, status string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(browser, browserPatience)
	defer cancel()
	const marked = `(status) => [...document.querySelectorAll("li.health-check-output")]
	  .some(li => li.classList.contains(status) && li.innerText.includes("hds:web-1"))`
	_, err := chromedp.Run(ctx, chromedp.PollFunction[bool](marked, chromedp.WithPollingArgs(status)))
	require.NoError(t, err, status)
}
