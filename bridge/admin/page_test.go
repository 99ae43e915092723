package admin

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// hostile is what a service's owner, an Envoy or an app might have put into any
// text that a page shows.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}javascript:alert(3)"

// hostileBackend has such a text wherever it can be.
func hostileBackend() *fakeBackend {
	check := Check{
		CheckID: "hds:" + hostile, Service: hostile, ServiceID: hostile, Probe: hostile, Kind: hostile, Target: hostile, Mode: hostile,
		Phase: hostile, Status: hostile, Output: hostile, Since: time.Now(), Maintenance: hostile,
	}
	return &fakeBackend{
		ready: errors.New(hostile),
		status: Status{
			Version: hostile, Node: hostile, Consul: Consul{Address: hostile, Error: hostile},
			Observers: []Observer{{NodeID: hostile, Kind: hostile, Peer: hostile, Envoy: hostile}},
			Checks:    []Check{check}, Problems: []Problem{{ServiceID: hostile, Source: hostile, Message: hostile}},
		},
		transitions:   []Transition{{CheckID: hostile, ServiceID: hostile, From: hostile, To: hostile, Output: hostile, Observer: hostile}},
		configuration: hostile,
		explanations: map[string]Explanation{"x": {
			ID: hostile, Conclusion: hostile, Problems: []Problem{{ServiceID: hostile, Source: hostile, Message: hostile}},
			Checks: []ExplainedCheck{{CheckID: hostile, Conclusion: hostile, Chain: []Link{
				{Name: hostile, Source: hostile, Text: hostile, Details: []string{hostile}},
			}}},
		}},
	}
}

func TestPagesEscapeWhatTheyShow(t *testing.T) {
	h := newServer(t, hostileBackend(), false).Handler()
	for _, path := range []string{"/", "/?status=critical&service=%22%3E%3Cscript%3E*", "/explain/x", "/config", "/explain/%3Cscript%3Ealert(1)%3C%2Fscript%3E"} {
		body := ask(h, "GET", path).Body.String()
		require.Contains(t, body, "&lt;script&gt;", path)
		checkPage(t, body)
	}
}

// checkPage wants nothing in a page that runs, loads or leads off the daemon.
func checkPage(t *testing.T, body string) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	for node := range document.Descendants() {
		if node.Type == html.ElementNode {
			assert.NotContains(t, []string{"script", "img", "iframe", "object", "form", "base"}, node.Data)
		}
		for _, a := range node.Attr {
			assert.NotRegexp(t, "^on", a.Key)
			if a.Key == "href" {
				assert.Regexp(t, "^(/($|[^/])|#)", a.Val)
			}
		}
	}
}

func TestPagesAreLockedDown(t *testing.T) {
	h := newServer(t, &fakeBackend{}, false).Handler()
	for path, code := range map[string]int{"/": 200, "/config": 200, "/explain/web/1": 200, "/explain/nope": 404} {
		w := ask(h, "GET", path)
		assert.Equal(t, code, w.Code, path)
		policy := w.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "style-src 'sha256-", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			assert.Contains(t, policy, part, path)
		}
		assert.NotContains(t, policy, "unsafe")
		assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		assert.Equal(t, 403, ask(h, "GET", path, "Host", "evil.example").Code, path)
	}
	for _, path := range []string{"/", "/config", "/explain/web/1", "/v1/transitions"} {
		assert.Equal(t, 404, ask(newServer(t, &fakeBackend{}, false).MetricsHandler(), "GET", path).Code, path)
	}
}

// somewhere has checks of all statuses.
func somewhere() *fakeBackend {
	check := func(service, id, status, phase string) Check {
		return Check{CheckID: "hds:" + id, Service: service, ServiceID: id, Status: status, Phase: phase, Output: "output of " + id}
	}
	return &fakeBackend{status: Status{
		Node: "n1", Consul: Consul{Synced: true},
		Checks: []Check{
			check("api", "api-1", "passing", "reported"), check("api", "api-2", "critical", "reported"),
			check("db", "db-1", "", "pending"), check("web", "web-1", "passing", "stale"), check("web", "web/2?x", "warning", "reported"),
		},
		Problems: []Problem{{ServiceID: "bad-1", Source: "meta", Message: "unknown key"}, {ServiceID: "web-1", Source: "envoy", Message: "late"}},
	}}
}

// inOrder says that a text holds others, one behind the other.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	for rest, _ := 0, 0; len(want) > 0; want = want[1:] {
		i := strings.Index(text[rest:], want[0])
		require.GreaterOrEqual(t, i, 0, "%q in %s", want[0], text[rest:])
		rest += i + len(want[0])
	}
}

func TestTheOverviewShowsTheWorstFirst(t *testing.T) {
	body := ask(newServer(t, somewhere(), false).Handler(), "GET", "/").Body.String()
	inOrder(t, body, "n1", ">ready<", ">synced<", "unknown key", "late", "output of api-2", "output of web/2?x", "output of db-1", "output of web-1", "output of api-1")
	assert.Contains(t, body, `href="/explain/hds:api-2"`)
	assert.Contains(t, body, `href="/explain/hds:web%2F2%3Fx"`, "an id is one part of a path")
	inOrder(t, body, `href="/?status=critical"><b>1<`, `href="/?status=warning"><b>1<`, `href="/?status=none"><b>1<`, `href="/?status=passing"><b>2<`)
}

func TestTheOverviewTellsWhatIsWrong(t *testing.T) {
	b := &fakeBackend{ready: errors.New("not synced yet"), status: Status{Consul: Consul{Error: "connection refused"}}}
	body := ask(newServer(t, b, false).Handler(), "GET", "/").Body.String()
	inOrder(t, body, ">not ready<", "not synced yet", ">not synced<", "connection refused")
}

func TestTheOverviewRefreshesItself(t *testing.T) {
	h := newServer(t, somewhere(), false).Handler()
	for path, want := range map[string]bool{"/": true, "/?status=critical": true, "/?refresh=0": false, "/config": false, "/explain/web/1": false} {
		assert.Equal(t, want, strings.Contains(ask(h, "GET", path).Body.String(), `<meta http-equiv="refresh" content="5">`), path)
	}
	assert.Contains(t, ask(h, "GET", "/?service=web").Body.String(), `href="/?refresh=0&amp;service=web">Pause`)
	assert.Contains(t, ask(h, "GET", "/?refresh=0&service=web").Body.String(), `href="/?service=web">Resume`)
}

func TestTheOverviewFilters(t *testing.T) {
	h := newServer(t, somewhere(), false).Handler()
	for query, want := range map[string]string{
		"":                             "api-2 web/2?x db-1 web-1 api-1",
		"status=passing":               "web-1 api-1",
		"status=none":                  "db-1",
		"status=nonsense":              "",
		"service=web":                  "web/2?x web-1",
		"service=*-1":                  "db-1 web-1 api-1",
		"service=api&status=critical":  "api-2",
		"service=api&status=warning":   "",
		"service=nobody":               "",
		"service=api&refresh=0&x=%00y": "api-2 api-1",
	} {
		body := ask(h, "GET", "/?"+query).Body.String()
		var got []string
		for _, found := range regexp.MustCompile(`output of ([^<]*)<`).FindAllStringSubmatch(body, -1) {
			got = append(got, found[1])
		}
		assert.Equal(t, want, strings.Join(got, " "), query)
	}
	body := ask(h, "GET", "/?service=web&status=passing&refresh=0").Body.String()
	assert.Contains(t, body, "late")
	assert.NotContains(t, body, "unknown key", "a problem of another service")
	assert.Contains(t, body, `href="/?refresh=0&amp;service=web" aria-current="true"><b>1<`, "the chosen one leads back, and keeps the rest")
	assert.Contains(t, body, `href="/?refresh=0&amp;service=web&amp;status=critical"><b>0<`)
}

func TestAnExplanationIsAPage(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := somewhere()
	b.transitions = []Transition{
		{Time: at, CheckID: "hds:api-2", ServiceID: "api-2", From: "passing", To: "critical", Output: "bad news"},
		{Time: at, CheckID: "hds:web-1", ServiceID: "web-1", To: "passing", Output: "other news"},
	}
	b.explanations = map[string]Explanation{"api-2": {ID: "api-2", Checks: []ExplainedCheck{{
		CheckID: "hds:api-2", Conclusion: "so it is",
		Chain: []Link{{Name: "registration", Time: at, Source: "the Consul agent", Text: "there", Details: []string{"a detail"}}, {Name: "write", Source: "us", Text: "done"}},
	}}}}
	body := ask(newServer(t, b, false).Handler(), "GET", "/explain/api-2").Body.String()
	inOrder(t, body, "hds:api-2", `class="status critical"`, "so it is", "registration", "there", "a detail", "the Consul agent", "2026-01-02 03:04:05", "write", "bad news")
	assert.NotContains(t, body, "other news")
}

func TestAPageThatIsNotThere(t *testing.T) {
	w := ask(newServer(t, &fakeBackend{}, false).Handler(), "GET", "/explain/nope")
	assert.Equal(t, 404, w.Code)
	inOrder(t, w.Body.String(), "<h1>Not Found</h1>", "not found: nope", `href="/"`)
}

func TestTransitionsDocument(t *testing.T) {
	b := &fakeBackend{transitions: []Transition{{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CheckID: "hds:a", ServiceID: "a", To: "passing", Output: "ok", Observer: "e1",
	}}}
	assert.JSONEq(t, `{"schema": 1, "transitions": [{"time": "2026-01-02T03:04:05Z", "check_id": "hds:a", "service_id": "a",
	 "from": "", "to": "passing", "output": "ok", "observer": "e1"}]}`, ask(newServer(t, b, false).Handler(), "GET", "/v1/transitions").Body.String())
	assert.JSONEq(t, `{"schema": 1, "transitions": []}`, ask(newServer(t, &fakeBackend{}, false).Handler(), "GET", "/v1/transitions").Body.String())
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", 59*time.Second + 999*time.Millisecond: "59 s", time.Minute: "1 min", time.Hour - 1: "59 min",
		time.Hour: "1 h", 48*time.Hour - 1: "47 h", 48 * time.Hour: "2 d",
	} {
		assert.Equal(t, want, strings.ReplaceAll(age(d), "\u00a0", " "), d)
	}
}
