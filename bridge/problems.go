package bridge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/logging"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

const (
	// problemPatience is how long a problem has to last to be worth a line: at the
	// start some are over as soon as the rest of what there is to know has come.
	problemPatience = 3 * time.Second
	// problemsAtOnce is how often the begin, and the end, of one problem is logged
	// within a minute before it is taken for a loop.
	problemsAtOnce = 3
)

// announcer logs problems that last, once when they begin and once when they are
// over. What Envoys leave unanswered comes for many probes at once, and is one
// line.
type announcer struct {
	logger hclog.Logger
	lines  *logging.Limiter
	known  map[probe.Problem]*announced
}

// announced is a problem since it was seen first. newest is how it is worded now.
type announced struct {
	newest probe.Problem
	since  time.Time
	said   bool
}

func newAnnouncer(logger hclog.Logger) *announcer {
	return &announcer{logger: logger, lines: logging.NewLimiter(logger, problemsAtOnce), known: map[probe.Problem]*announced{}}
}

// update takes the problems in that there are now.
func (a *announcer) update(now time.Time, current []probe.Problem) {
	present := make(map[probe.Problem]bool, len(current))
	for _, p := range current {
		key := identity(p)
		present[key] = true
		if a.known[key] == nil {
			a.known[key] = &announced{since: now}
		}
		a.known[key].newest = p
	}
	a.sayBegun(now)
	a.sayOver(now, present)
	a.lines.Flush(now)
}

// identity is a problem without what may change while it lasts: that nobody
// answers for a probe is worded by who is connected.
func identity(p probe.Problem) probe.Problem {
	if ofEnvoy(p) {
		p.Message = ""
	}
	return p
}

// ofEnvoy says whether a problem is an Envoy's silence on a single probe.
func ofEnvoy(p probe.Problem) bool { return p.Source == probe.SourceEnvoy && p.ServiceID != "" }

func (a *announcer) sayBegun(now time.Time) {
	var silent []probe.Problem
	for _, key := range a.inOrder() {
		p := a.known[key]
		if p.said || now.Sub(p.since) < problemPatience {
			continue
		}
		p.said = true
		if ofEnvoy(key) {
			silent = append(silent, p.newest)
			continue
		}
		a.say(now, hclog.Warn, "problem", p.newest)
	}
	if len(silent) > 0 {
		a.logger.Warn("checks get no answer from any Envoy", "count", len(silent), "service_id", silent[0].ServiceID, "problem", silent[0].Message)
	}
}

func (a *announcer) sayOver(now time.Time, present map[probe.Problem]bool) {
	answered := 0
	for _, key := range a.inOrder() {
		p := a.known[key]
		if present[key] {
			continue
		}
		delete(a.known, key)
		switch {
		case !p.said:
		case ofEnvoy(key):
			answered++
		default:
			a.say(now, hclog.Info, "problem is over", p.newest)
		}
	}
	if answered > 0 {
		a.logger.Info("checks get answers again, or are gone", "count", answered)
	}
}

func (a *announcer) inOrder() []probe.Problem {
	return slices.SortedFunc(maps.Keys(a.known), compareProblems)
}

// say logs a line about one problem, which may be one of the node.
func (a *announcer) say(now time.Time, level hclog.Level, what string, p probe.Problem) {
	a.lines.Log(now, level, what+p.ServiceID+p.Message, what,
		logging.Known("service_id", p.ServiceID, "source", p.Source, "problem", p.Message)...)
}

func compareProblems(a, b probe.Problem) int {
	return cmp.Or(cmp.Compare(a.ServiceID, b.ServiceID), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Message, b.Message))
}
