// Package admin is the daemon's HTTP API: health, readiness, status, metrics,
// reload and profiles, and pages for people. It knows the daemon by a small interface only.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// ErrInvalid marks an error of Backend.Reload as the operator's: the new config
// is not valid. It is answered with 400, any other error with 500.
var ErrInvalid = errors.New("invalid configuration")

// ErrNotFound marks an error of Backend as a question for something that is not
// there. It is answered with 404.
var ErrNotFound = errors.New("not found")

// Backend is the daemon that the API speaks for. Its methods are called from
// several goroutines and should answer quickly.
type Backend interface {
	// Ready returns nil if the daemon does its work, else what is missing.
	Ready() error
	// Status returns the present state.
	Status() Status
	// Explain tells why the checks of an instance are what they are; id is that of
	// a service or of a check.
	Explain(ctx context.Context, id string) (Explanation, error)
	// Observer tells what was said last with the Envoy of a node id.
	Observer(nodeID string) (Exchange, error)
	// Transitions are the last changes of the checks' statuses, the newest first.
	Transitions() []Transition
	// Configuration is the configuration in force, as text without secrets.
	Configuration() string
	// Reload reads the config again, and names what has changed and needs a
	// restart. After an error the old one goes on.
	Reload() (needRestart []string, err error)
}

// Config is what a Server needs.
type Config struct {
	// Listen is the address (host:port) of the whole API. Whoever reaches it may
	// reload and read everything, so it belongs on loopback. Required.
	Listen string
	// MetricsListen is the address of a second listener, which serves /metrics,
	// /v1/health and /v1/ready only. Empty for none.
	MetricsListen string
	// EnableDebug serves /debug/pprof on Listen.
	EnableDebug bool
	// Backend is required.
	Backend Backend
	// Metrics serves /metrics. Required.
	Metrics http.Handler
	// Logger is told of the listeners. Default: none.
	Logger hclog.Logger
}

// Server serves the API.
type Server struct {
	config    Config
	pages     *pages
	listeners []*listener
}

// New makes a Server and opens nothing.
func New(config Config) (*Server, error) {
	switch {
	case config.Listen == "":
		return nil, errors.New("admin: an address to listen on is required")
	case config.Backend == nil:
		return nil, errors.New("admin: a backend is required")
	case config.Metrics == nil:
		return nil, errors.New("admin: a handler of metrics is required")
	}
	if config.Logger == nil {
		config.Logger = hclog.NewNullLogger()
	}
	s := &Server{config: config}
	var err error
	if s.pages, err = newPages(config.Backend, s.allReady); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	s.listeners = append(s.listeners, newListener("admin", config.Listen, s.Handler(), config.Logger))
	if config.MetricsListen != "" {
		s.listeners = append(s.listeners, newListener("metrics", config.MetricsListen, s.MetricsHandler(), config.Logger))
	}
	return s, nil
}

// Run listens and serves until ctx ends, then lets running requests end for at
// most a second and returns nil. An address that does not exist yet is waited
// for; any other failure to listen is returned.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- l.run(ctx) }()
	}
	var err error
	for range s.listeners {
		err = errors.Join(err, <-ended)
		if err != nil {
			cancel()
		}
	}
	return err
}

// Ready returns nil if every listener is open.
func (s *Server) Ready() error {
	var err error
	for _, l := range s.listeners {
		err = errors.Join(err, l.ready())
	}
	return err
}

// Addr is the address of the main listener, with the port that was chosen for
// port 0. It is empty while there is none.
func (s *Server) Addr() string { return s.listeners[0].address() }

// MetricsAddr is the same of the listener for metrics.
func (s *Server) MetricsAddr() string {
	if len(s.listeners) < 2 {
		return ""
	}
	return s.listeners[1].address()
}

// Handler serves the whole API. It refuses requests that a web page might have
// sent: for a host that is neither an IP address nor localhost (DNS rebinding),
// and writes from another origin.
func (s *Server) Handler() http.Handler {
	all := s.publicRoutes()
	long := newTurns()
	all["/v1/status"] = long.take(get(s.status))
	all["/v1/explain/"] = get(s.explain)
	all["/v1/observers/"] = long.take(get(s.observer))
	all["/v1/transitions"] = get(s.transitions)
	all["/"] = long.take(s.pages.handle(s.pages.showOverview))
	all["/explain/"] = s.pages.handle(s.pages.showExplanation)
	all["/config"] = s.pages.handle(s.pages.showConfig)
	all["/v1/reload"] = route{method: http.MethodPut, handler: jsonHandler(s.reload)}
	if s.config.EnableDebug {
		addProfiles(all)
	}
	return guard(all)
}

// MetricsHandler serves what may be shown off the node.
func (s *Server) MetricsHandler() http.Handler { return s.publicRoutes() }

func (s *Server) publicRoutes() routes {
	return routes{
		"/metrics":   {method: http.MethodGet, handler: s.config.Metrics},
		"/v1/health": get(s.health),
		"/v1/ready":  get(s.ready),
	}
}

// state is the answer of those that have nothing else to say.
type state struct {
	Status string `json:"status"`
}

// reloaded is the answer to a reload. What needs a restart was not taken over.
type reloaded struct {
	state
	NeedRestart []string `json:"need_restart,omitempty"`
}

func (s *Server) health(*http.Request) (any, error) { return state{"alive"}, nil }

func (s *Server) ready(*http.Request) (any, error) {
	if err := s.allReady(); err != nil {
		return nil, failure{http.StatusServiceUnavailable, err}
	}
	return state{"ready"}, nil
}

// allReady returns nil if the daemon does its work and every listener is open.
func (s *Server) allReady() error { return errors.Join(s.config.Backend.Ready(), s.Ready()) }

func (s *Server) status(*http.Request) (any, error) { return s.config.Backend.Status().finished(), nil }

func (s *Server) explain(r *http.Request) (any, error) {
	e, err := s.config.Backend.Explain(r.Context(), strings.TrimPrefix(r.URL.Path, "/v1/explain/"))
	return e.finished(), coded(err)
}

func (s *Server) observer(r *http.Request) (any, error) {
	e, err := s.config.Backend.Observer(strings.TrimPrefix(r.URL.Path, "/v1/observers/"))
	return e, coded(err)
}

func (s *Server) transitions(*http.Request) (any, error) {
	return History{Schema: Schema, Transitions: listed(s.config.Backend.Transitions())}, nil
}

// coded gives an error of the backend its status code.
func coded(err error) error {
	if errors.Is(err, ErrNotFound) {
		return failure{http.StatusNotFound, err}
	}
	return err
}

func (s *Server) reload(*http.Request) (any, error) {
	needRestart, err := s.config.Backend.Reload()
	if errors.Is(err, ErrInvalid) {
		return nil, failure{http.StatusBadRequest, err}
	}
	return reloaded{state{"reloaded"}, needRestart}, err
}
