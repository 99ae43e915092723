package hds

import (
	"fmt"
	"maps"
	"time"
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
	asked, leaving, whole, by := s.asked, maps.Clone(s.leaving), s.reread || s.repeats, s.specifiers
	s.mu.Unlock()
	// Unlocked: a report may be long, and nobody else must wait for it.
	r, err := read(f, whole, func(name string) bool { return asked.has(name) || leaving[name] })
	if err != nil {
		return nil, false, fmt.Errorf("decoding a report: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, freed = s.fold(r, s.lastReport, by == s.specifiers)
	s.reports, s.lastReport = s.reports+1, now
	return append(dirty, s.settle()...), freed, nil
}

// read reads the newest report: only what has changed, if it may.
func read(f *frame, whole bool, wanted func(cluster string) bool) (report, error) {
	defer f.forget()
	newest := f.newest()
	if !whole {
		if r, ok := readChanges(f.before, newest, wanted); ok {
			return r, nil
		}
	}
	return readReport(newest, wanted)
}

// fold compares a report with what the endpoints are known to be. last is when
// the report before it came. A report that is not current was read for an older
// specifier: it says nothing of what became of the newest one.
func (s *session) fold(r report, last time.Time, current bool) (dirty []string, freed bool) {
	if r.partial {
		return s.foldChanges(r, last), false
	}
	s.decoded, s.foreign, s.repeats = true, r.others, r.repeats
	for i, pr := range s.asked.probes {
		got, echoed := r.sightings[pr.Cluster]
		s.asked.endpoints[i].mark(seen, echoed)
		if s.foldOne(i, got, echoed, last) {
			dirty = append(dirty, pr.CheckID)
		}
	}
	if !current {
		return dirty, false
	}
	s.reread = false
	for name := range r.sightings {
		if !s.asked.has(name) {
			s.foreign++
		}
	}
	freed = s.free(r)
	s.noteApplied(last, false)
	return dirty, freed
}

// free lets go of the clusters that were withdrawn and that a report shows gone,
// and tells whether there were any.
func (s *session) free(r report) (freed bool) {
	for name := range s.leaving {
		if _, echoed := r.sightings[name]; !echoed {
			delete(s.leaving, name)
			freed = true
		}
	}
	if len(s.leaving) == 0 {
		s.leaving = nil
	}
	return freed
}

// foldChanges is fold for a report that names the clusters that the one before
// it did: what follows from their names is as it was.
func (s *session) foldChanges(r report, last time.Time) (dirty []string) {
	for name, got := range r.sightings {
		if i, ok := s.asked.index(name); ok && s.foldOne(i, got, true, last) {
			dirty = append(dirty, s.asked.probes[i].CheckID)
		}
	}
	return dirty
}

// foldOne notes what the newest report says of endpoint i, if it echoes it, and
// tells whether it is anything new.
func (s *session) foldOne(i int, got wired, echoed bool, last time.Time) bool {
	if !echoed {
		return s.fall(i, last)
	}
	ep := &s.asked.endpoints[i]
	fresh := !ep.echoed()
	if fresh {
		ep.begin(s.reports + 1)
		s.unsettled++
	}
	if !got.answers {
		return s.fall(i, last) || fresh
	}
	if !ep.is(live) {
		delete(s.fallen, s.asked.probes[i].Cluster)
	}
	return ep.take(got.sighting) || fresh
}

// fall ends the word of endpoint i: the newest report holds no answer. The last
// one, if there was any, stands with its time.
func (s *session) fall(i int, last time.Time) bool {
	ep := &s.asked.endpoints[i]
	if !ep.is(live) {
		return false
	}
	ep.mark(live, false)
	if s.fallen == nil {
		s.fallen = map[string]moment{}
	}
	s.fallen[s.asked.probes[i].Cluster] = moment{last, s.reports}
	return true
}

// settle lists the checks of the endpoints whose bad news came a report closer
// to counting, and settles those for which nothing is left to wait for.
func (s *session) settle() (dirty []string) {
	if s.unsettled == 0 {
		return nil
	}
	for i, pr := range s.asked.probes {
		ep := &s.asked.endpoints[i]
		if !ep.is(unsettled) {
			continue
		}
		if !ep.is(healthy) && ep.is(live) {
			dirty = append(dirty, pr.CheckID)
		}
		if ep.is(healthy) || ep.reports(s.reports) > quiet(pr, s.interval) {
			ep.mark(unsettled, false)
			s.unsettled--
		}
	}
	return dirty
}

// noteApplied compares the newest specifier with the newest report.
func (s *session) noteApplied(now time.Time, sent bool) {
	applied := s.decoded && s.foreign == 0 && len(s.leaving) == 0
	for i := range s.asked.endpoints {
		applied = applied && s.asked.endpoints[i].is(seen)
	}
	switch {
	case applied:
		s.unapplied = time.Time{}
	case sent || s.unapplied.IsZero():
		s.unapplied = now
	}
}
