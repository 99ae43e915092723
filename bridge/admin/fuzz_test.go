package admin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// served asks both handlers of a server, and checks what they answer.
func served(t *testing.T, s *Server, r *http.Request) {
	t.Helper()
	if strings.HasPrefix(r.URL.Path, "/debug/pprof/") && (strings.HasSuffix(r.URL.Path, "/profile") || strings.HasSuffix(r.URL.Path, "/trace") || r.FormValue("seconds") != "") {
		return // takes its time
	}
	for _, h := range []http.Handler{s.Handler(), s.MetricsHandler()} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		checkAnswer(t, r, w)
	}
}

// checkAnswer wants a code that is documented, and of each answer what it says of
// itself.
func checkAnswer(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	profile := strings.HasPrefix(r.URL.Path, "/debug/pprof/")
	codes := []int{200, 403, 404, 405}
	if profile {
		codes = append(codes, 400, 500)
	}
	require.Contains(t, codes, w.Code)
	switch kind := w.Header().Get("Content-Type"); {
	case kind == "text/html; charset=utf-8" && !profile:
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		checkPage(t, w.Body.String())
	case kind == "application/json":
		require.True(t, json.Valid(w.Body.Bytes()))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	default:
		require.True(t, profile || r.URL.Path == "/metrics", "%q on %q", kind, r.URL.Path)
	}
	if w.Code != 200 && !profile && w.Header().Get("Content-Type") == "application/json" {
		var body struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		require.NotEmpty(t, body.Error)
	}
	if profile && strings.Contains(w.Header().Get("Content-Type"), "html") {
		require.NotContains(t, strings.ToLower(w.Body.String()), "<script")
	}
}

// FuzzRequests: no path, method, query, host or origin makes a panic, a status
// that is not documented, or a page that holds more than text of it.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/v1/status", "", "127.0.0.1", "")
	f.Add("PUT", "/v1/reload", "x=y", "localhost:1", "http://evil.example")
	f.Add("PUT", "/v1/reload", "", "localhost:1", "")
	f.Add("", "/debug/pprof/../..//%00", "debug=1", "[::1", "null")
	f.Add("BREW", "", "%zz", "%", "://")
	f.Add("GET", "/explain/<script>", "service=<script>", "127.0.0.1", "")
	f.Add("GET", "/v1/explain/"+hostile, hostile, "[::1]:1", "")
	f.Add("GET", "/", "status=critical&service=*<img>&refresh=0", "127.0.0.1", "")
	f.Add("HEAD", "/explain/web/1", "", "127.0.0.1", "")
	f.Add("GET", "/v1/observers/node/1", "", "127.0.0.1", "")
	b := somewhere()
	b.explanations = hostileBackend().explanations
	s := newServer(f, b, true)
	f.Fuzz(func(t *testing.T, method, path, query, host, origin string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.URL.Path, r.URL.RawQuery, r.Host = method, path, query, host
		r.Header.Set("Origin", origin)
		served(t, s, r)
	})
}

// FuzzBytes reads any bytes as a request, as the server itself does.
func FuzzBytes(f *testing.F) {
	for _, target := range []string{"/", "/v1/status", "//v1/status", "/v1/../v1/status", "/v1/explain/web%2F1", "/%00", "http://localhost/config", "*", "/explain/%3Cscript%3E?service=%22"} {
		f.Add([]byte("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	f.Add([]byte("PUT /v1/reload HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 5\r\n\r\nabcde"))
	f.Add([]byte("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	s := newServer(f, somewhere(), true)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		served(t, s, r)
	})
}

// FuzzOverview: whatever comes, a page is a page: no status, filter or text makes a
// template fail.
func FuzzOverview(f *testing.F) {
	f.Add("status=critical", "critical", "web")
	f.Add("%zz&refresh", hostile, "\xff\x00")
	b := somewhere()
	h := newServer(f, b, false).Handler()
	f.Fuzz(func(t *testing.T, query, status, text string) {
		b.status.Checks[0].Status, b.status.Checks[0].CheckID, b.status.Checks[0].Output = status, text, text
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.URL.RawQuery = "localhost", query
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
		require.True(t, strings.HasSuffix(w.Body.String(), "</html>\n"))
		checkPage(t, w.Body.String())
	})
}

// matches is what a glob means, said another way.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	re, err := regexp.Compile("(?s)^" + strings.Join(parts, ".*") + "$")
	return err == nil && re.MatchString(text)
}

// FuzzFilter filters a status by any words, which are those of the command status
// and of the page. What passes are the checks that it means, in their order.
func FuzzFilter(f *testing.F) {
	f.Add("", "", "web", "web-1", "passing")
	f.Add("*-1", "critical", "web", "web-1", "critical")
	f.Add("w**b", "none", "web", "x", "")
	f.Add("web", "nonsense", "web", "web", "\xff")
	f.Fuzz(func(t *testing.T, service, status, name, id, has string) {
		checks := append(somewhere().status.Checks, Check{Service: name, ServiceID: id, Status: has})
		s := Status{Checks: checks, Problems: []Problem{{ServiceID: id}, {ServiceID: "web-1"}, {}}}
		filter := Filter{Service: service, Status: status}
		var want []Check
		for _, c := range checks {
			named := service == "" || matches(service, c.Service) || matches(service, c.ServiceID)
			if named && (status == "" || status == c.StatusWord()) {
				want = append(want, c)
			}
		}
		if valid(service, name, id) {
			require.ElementsMatch(t, want, filter.Checks(s))
		}
		require.True(t, within(filter.Problems(s), s.Problems))
		if service == "" {
			require.Equal(t, s.Problems, filter.Problems(s))
		}
	})
}

// valid says whether texts are UTF-8, as those of JSON and of a query's are when
// they are compared; regular expressions know no others.
func valid(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return strings.ToValidUTF8(s, "") != s })
}

// within says whether one list is another one without some of it.
func within(some, all []Problem) bool {
	for _, p := range all {
		if len(some) > 0 && some[0] == p {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// FuzzAnswers gives the client of the commands any answer: it is an error, or a
// document that can be shown.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"schema": 1, "checks": [{"service_id": "a", "since": "2026-01-02T03:04:05Z"}], "problems": null}`))
	f.Add(200, []byte(`{"schema": 2}`))
	f.Add(404, []byte(`{"error": "not found"}`))
	f.Add(500, []byte("<html>"))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		answer := func() *http.Response {
			w := httptest.NewRecorder()
			_, _ = w.Write(body) // into memory
			r := w.Result()
			r.StatusCode = code
			return r
		}
		var s Status
		if err := decode(answer(), &s); err == nil {
			require.Equal(t, 200, code)
			_ = Filter{Service: "*", Status: none}.Checks(s)
			_ = Filter{Service: "*"}.Problems(s)
		}
		var e Explanation
		if err := decode(answer(), &e); err == nil {
			require.Equal(t, 200, code)
		}
	})
}
