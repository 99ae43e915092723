package hds

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// report takes the newest report in. It returns the check ids whose observation
// changed, or came closer to counting; and whether a cluster that was held back
// may be sent now.
func (s *session) report(f *frame, now time.Time) (dirty []string, freed bool, err error) {
	s.mu.Lock()
	if f.equal && !s.reread {
		defer s.mu.Unlock()
		s.reports, s.lastReport = s.reports+1, now
		return s.settle(), false, nil
	}
	endpoints, leaving, whole := s.endpoints, maps.Clone(s.leaving), s.reread || s.repeats
	s.mu.Unlock()
	// Unlocked: a report may be long, and nobody else must wait for it.
	r, err := read(f, whole, func(name string) bool { return endpoints[name] != nil || leaving[name] })
	if err != nil {
		return nil, false, fmt.Errorf("decoding a report: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, freed = s.fold(r, s.lastReport, sameMap(endpoints, s.endpoints))
	s.reports, s.lastReport = s.reports+1, now
	return append(dirty, s.settle()...), freed, nil
}

// read reads the newest report: only what has changed, if it may.
func read(f *frame, whole bool, wanted func(cluster string) bool) (report, error) {
	defer f.forget()
	if !whole {
		if r, ok := readChanges(f.before, f.last, wanted); ok {
			return r, nil
		}
	}
	return readReport(f.last, wanted)
}

// sameMap says whether two maps are one and the same.
func sameMap(a, b map[string]*endpoint) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// fold compares a report with what the endpoints are known to be. last is when
// the report before it came. A report that is not current was read for an older
// specifier: it says nothing of what became of the newest one.
func (s *session) fold(r report, last time.Time, current bool) (dirty []string, freed bool) {
	if r.partial {
		return s.foldChanges(r, last), false
	}
	number := s.reports + 1
	s.decoded, s.foreign, s.repeats = number, r.others, r.repeats
	for name, ep := range s.endpoints {
		got, echoed := r.sightings[name]
		changed := false
		if echoed {
			changed = ep.take(got, number, last)
		} else {
			changed = ep.fall(last)
		}
		if changed {
			dirty = append(dirty, ep.probe.CheckID)
		}
		if echoed && ep.firstEcho == number {
			s.unsettled[name] = ep
		}
	}
	if !current {
		return dirty, false
	}
	s.reread = false
	for name := range r.sightings {
		if s.endpoints[name] == nil {
			s.foreign++
		}
	}
	for name := range s.leaving {
		if _, echoed := r.sightings[name]; !echoed {
			delete(s.leaving, name)
			freed = true
		}
	}
	s.noteApplied(last, false)
	return dirty, freed
}

// foldChanges is fold for a report that names the clusters that the one before
// it did: what follows from their names is as it was.
func (s *session) foldChanges(r report, last time.Time) (dirty []string) {
	for name, got := range r.sightings {
		if ep := s.endpoints[name]; ep != nil && ep.take(got, s.decoded, last) {
			dirty = append(dirty, ep.probe.CheckID)
		}
	}
	return dirty
}

// take notes what report number says of the endpoint, and tells whether it is
// anything new.
func (e *endpoint) take(got wired, number uint64, last time.Time) bool {
	fresh := !e.echoed
	if fresh {
		e.echoed, e.firstEcho = true, number
	}
	e.seen = number
	if !got.answers {
		return e.fall(last) || fresh
	}
	changed := fresh || !e.live || got.sighting != e.answer
	e.answer, e.answers, e.live = got.sighting, true, true
	e.healthy = e.healthy || got.status == corev3.HealthStatus_HEALTHY
	return changed
}

// fall ends the endpoint's word: the newest report holds no answer. The last
// one stands with its time.
func (e *endpoint) fall(last time.Time) bool {
	if !e.live {
		return false
	}
	e.live, e.at = false, last
	return true
}

// settle lists the checks of the endpoints whose bad news came a report closer
// to counting, and lets go of those for which nothing is left to wait for.
func (s *session) settle() (dirty []string) {
	for name, ep := range s.unsettled {
		if !ep.healthy && ep.live {
			dirty = append(dirty, ep.probe.CheckID)
		}
		if ep.healthy || s.reports > ep.firstEcho+ep.quiet {
			delete(s.unsettled, name)
		}
	}
	return dirty
}

// noteApplied compares the newest specifier with the newest report.
func (s *session) noteApplied(now time.Time, sent bool) {
	applied := s.decoded > 0 && s.foreign == 0 && len(s.leaving) == 0
	for _, ep := range s.endpoints {
		applied = applied && ep.echoed && ep.seen == s.decoded
	}
	switch {
	case applied:
		s.unapplied = time.Time{}
	case sent || s.unapplied.IsZero():
		s.unapplied = now
	}
}
