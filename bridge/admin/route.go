package admin

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
)

// failure is an error with the status code that it is answered with. An error
// without one is a 500.
type failure struct {
	code int
	err  error
}

// codeOf is the status code of an error.
func codeOf(err error) int {
	var f failure
	if errors.As(err, &f) {
		return f.code
	}
	return http.StatusInternalServerError
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// jsonHandler answers with a value or an error, as JSON.
type jsonHandler func(*http.Request) (any, error)

func (h jsonHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	value, err := h(r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, value)
}

func writeError(w http.ResponseWriter, err error) {
	writeJSON(w, codeOf(err), map[string]string{"error": err.Error()})
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // the client has gone: nobody to tell
}

// route is a handler and the method it answers. GET implies HEAD.
type route struct {
	method  string
	handler http.Handler
}

func get(h jsonHandler) route { return route{method: http.MethodGet, handler: h} }

func (r route) takes(method string) bool {
	return method == r.method || r.method == http.MethodGet && method == http.MethodHead
}

func (r route) allow() string {
	if r.method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.method
}

// routes are the handlers by path; a path that ends in a slash stands for all
// below it, but "/" for itself alone. Unlike http.ServeMux they redirect nobody,
// since our paths may end in a service id, and answer every error as JSON.
type routes map[string]route

func (rs routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := rs.find(r.URL.Path)
	switch {
	case !ok:
		writeError(w, failure{http.StatusNotFound, errors.New("no such path")})
	case !found.takes(r.Method):
		w.Header().Set("Allow", found.allow())
		writeError(w, failure{http.StatusMethodNotAllowed, errors.New("method not allowed")})
	default:
		found.handler.ServeHTTP(w, r)
	}
}

func (rs routes) find(path string) (route, bool) {
	if found, ok := rs[path]; ok {
		return found, true
	}
	for prefix, found := range rs {
		if prefix != "/" && strings.HasSuffix(prefix, "/") && strings.HasPrefix(path, prefix) {
			return found, true
		}
	}
	return route{}, false
}

func addProfiles(rs routes) {
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		rs[path] = route{method: http.MethodGet, handler: handler}
	}
}

// guard keeps web pages out, which a browser on this host may have open.
func guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) {
			writeError(w, failure{http.StatusForbidden, errors.New("the host must be an IP address or localhost")})
			return
		}
		if err := origins.Check(r); err != nil {
			writeError(w, failure{http.StatusForbidden, err})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localHost says whether a Host header is one that no DNS server can have led
// here.
func localHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}
