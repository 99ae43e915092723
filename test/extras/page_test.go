package extras

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// The size of a telephone, in CSS pixels.
const phoneWidth, phoneHeight = 390, 844

func TestThePageShowsAFailureByItself(t *testing.T) {
	ctx, cancel := lab.SignalContext(context.Background())
	defer cancel()
	l, err := lab.New(ctx, lab.Options{Progress: os.Stderr})
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	consul, err := l.StartConsul(ctx, lab.ConsulOptions{NodeName: "node-1"})
	require.NoError(t, err)
	app, daemon := startProbed(t, ctx, l, consul)
	registerOthers(t, l, consul)
	becomes(t, ctx, consul, api.HealthPassing)

	browser := newBrowser(t, 1280, 1500)
	root := "http://" + daemon.AdminAddr()
	open(t, browser, root+"/")
	shows(t, browser, "hds:web-1", "healthy, says Envoy node-envoy", "hds_intervall")
	app.SetStatus(503)
	shows(t, browser, "unhealthy, HTTP 503, says Envoy node-envoy") // nobody has touched the browser
	assert.Equal(t, "critical", evaluate[string](t, browser, `document.querySelector("#checks ~ table tbody tr .status").innerText`), "the worst is the first")
	picture(t, browser, "page-overview")
	assert.Greater(t, brightness(t, browser), 0.8)
	dark(t, browser, true)
	assert.Less(t, brightness(t, browser), 0.2)
	picture(t, browser, "page-overview-dark")
	dark(t, browser, false)

	require.NoError(t, chromedp.Do(browser, chromedp.Click(chromedp.CSS(`a[href="/explain/hds:web-1"]`))))
	shows(t, browser, "registration", "catalog", "hds:web-1 is critical since", "Last transitions")
	picture(t, browser, "page-explain")
	fitsAPhone(t, browser, root)
}

// registerOthers registers instances of all sorts beside web-1.
func registerOthers(t *testing.T, l *lab.Lab, consul *lab.Consul) {
	t.Helper()
	for id, meta := range map[string]map[string]string{
		"shop-1":    {"hds": "http", "hds_path": "/ready"},
		"api-1":     {"hds": "tcp"},
		"catalog-1": {"hds": "http", "hds_mode": "shadow"},
		"cart-1":    {"hds": "http", "hds_intervall": "1s"},
	} {
		app, err := l.StartApp()
		require.NoError(t, err)
		name, _, _ := strings.Cut(id, "-")
		require.NoError(t, consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: name, Address: "127.0.0.1", Port: app.Port(), Meta: meta,
		}))
	}
}

// fitsAPhone looks at each page at the width of a phone: nothing may be wider.
func fitsAPhone(t *testing.T, browser context.Context, root string) {
	t.Helper()
	require.NoError(t, chromedp.Do(browser, chromedp.EmulateViewport(phoneWidth, phoneHeight, chromedp.EmulateScale(2), chromedp.EmulateMobile)))
	for path, text := range map[string]string{
		"/config": "poll_interval", "/explain/hds:web-1": "registration", "/explain/nobody": "Not Found", "/": "Last transitions",
	} {
		open(t, browser, root+path)
		shows(t, browser, text)
		assert.Equal(t, phoneWidth, evaluate[int](t, browser, `document.documentElement.clientWidth`), path)
		assert.LessOrEqual(t, evaluate[int](t, browser, `document.documentElement.scrollWidth`), phoneWidth, path)
	}
	open(t, browser, root+"/")
	picture(t, browser, "page-phone")
}

func open(t *testing.T, browser context.Context, url string) {
	t.Helper()
	require.NoError(t, chromedp.Do(browser, chromedp.Navigate(url)))
}

// shows is sees, of a page that loads itself again, and that lets no script in that
// polls.
func shows(t *testing.T, browser context.Context, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, lab.Eventually(browser, browserPatience, func() error {
			shown, err := chromedp.Run(browser, chromedp.Evaluate[string](`document.body.innerText`))
			if err == nil && !strings.Contains(shown, text) {
				err = fmt.Errorf("the page lacks %q; it shows:\n%s", text, shown)
			}
			return err
		}))
	}
}

func evaluate[T any](t *testing.T, browser context.Context, script string) T {
	t.Helper()
	v, err := chromedp.Run(browser, chromedp.Evaluate[T](script))
	require.NoError(t, err)
	return v
}

// dark emulates a reader who prefers dark pages, or does not.
func dark(t *testing.T, browser context.Context, yes bool) {
	t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[yes]
	require.NoError(t, chromedp.Do(browser, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})))
}

// brightness is that of the background, from 0 to 1.
func brightness(t *testing.T, browser context.Context) float64 {
	t.Helper()
	return evaluate[float64](t, browser,
		`getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((sum, c) => sum + Number(c), 0) / 765`)
}
