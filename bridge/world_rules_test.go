package bridge

import (
	"slices"
	"strings"
	"time"
)

// saw takes in what happened to a check of the agent, and judges it.
func (m *model) saw(e event) {
	if !strings.HasPrefix(e.id, "hds") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subject(e.id)
	if e.writer != nil {
		s.writes = append(s.writes, e.at)
		m.judgeWrite(s, e)
	}
	switch {
	case e.after == nil:
		s.gone = e.at
	case e.before == nil && e.writer == nil && e.at.Sub(s.gone) > 2*slack:
		s.born = e.at
	}
	switch {
	case e.after == nil && e.writer != nil: // nothing is lost to it that it removed
		s.present, s.met = nil, nil
	case e.after == nil:
	case !holds(e.after):
		s.shown = ""
	default:
		m.judgeStatus(s, e)
		s.shown = e.after.Status
		m.notePresent(s, e.writer)
	}
}

// judgeWrite judges whether the daemon may write to this check at all.
func (m *model) judgeWrite(s *subject, e event) {
	if e.before != nil && !holds(e.before) {
		m.judgeForeign(s, e)
	}
	if yes, _ := m.probed(s); e.what == "deregister" && e.before != nil {
		born := later(e.writer.started, s.born)
		switch {
		case yes && m.calm.Before(e.at):
			m.fault("5: %s has a probe, and was removed", s.id)
		case m.calm.Add(2*time.Second - patience).After(e.at): // the daemon may have seen the newest rules with older registrations
		case !yes && s.tried != e.writer && e.at.Sub(born) < m.scene.leastGrace:
			m.fault("5: %s is an orphan since %s only, and was removed", s.id, e.at.Sub(born))
		}
	}
}

// judgeForeign judges a write to somebody else's check: the daemon may not have
// seen yet whose it is, but with a new token it has to look before.
func (m *model) judgeForeign(s *subject, e event) {
	switch {
	case m.daemon == nil: // its last writes, for which it does not read
	case e.at.Before(m.back.Add(time.Second)): // a try of those that it makes while the agent is away, and the next read is to come
	case e.at.Sub(m.scene.rotated) >= m.scene.settings.TTL/3: // reads have failed for so long that refreshes could wait no longer
	case !e.writer.reads[e.token]:
		m.fault("5: %s is foreign, and the daemon did %s it before it had read anything with its token", s.id, e.what)
	case e.before.shown == e.writer && e.at.Sub(e.before.shownAt) >= m.heed(e.before):
		m.fault("5: %s is foreign, and the daemon did %s it", s.id, e.what)
	}
}

// heed is how long the daemon may go on as if it had not been shown a check: where
// nothing ails, as long as a write is under way.
func (m *model) heed(c *simCheck) time.Duration {
	if m.fine.Before(c.made.Add(-slack)) {
		return way(true)
	}
	return hangs
}

// judgeStatus judges the status that the agent shows of a check from now on.
func (m *model) judgeStatus(s *subject, e event) {
	now := e.after.Status
	inst := m.known[s.instance]
	if e.writer != nil && e.before == nil && inst != nil {
		m.judgeFirst(s, e, inst)
	}
	switch {
	case e.before == nil && e.writer != nil && s.met != e.writer && e.writer.started.After(s.good): // gone, and new to this daemon
	case now == "critical" && s.shown == "passing" && e.what != "restart" && !m.mayFall(s, e):
		m.fault("7.2: %s turned critical by %s, and no word was bad: last good word %s ago, alive for %s, fine for %s",
			s.id, e.what, e.at.Sub(s.good), e.at.Sub(s.alive), e.at.Sub(m.fine))
	case now == "passing" && s.shown != "passing" && e.writer != nil && inst != nil && s.good.Before(inst.since) && inst.fresh:
		m.fault("4: %s of a new instance turned passing, and nobody said so", s.id)
	case now == "passing" && e.writer != nil && e.what == "update" && e.before.last != "" && !s.stale.IsZero() && e.at.Sub(s.stale) > slack && !m.kept:
		m.fault("4: %s is stale since %s, and was refreshed", s.id, e.at.Sub(s.stale))
	case now == "passing" && s.shown == "critical" && e.writer != nil && e.what == "update" && e.at.Sub(later(s.good, e.writer.started)) > memory && !m.kept: // what was found is adopted
		m.fault("4: %s turned passing, and the last good word is %s old; its daemon was started %s ago, the newest %s", s.id, e.at.Sub(s.good), e.at.Sub(e.writer.started), e.at.Sub(m.daemon.started))
	}
}

// judgeFirst judges a check that is registered where there was none: of an
// instance that was there already that takes an answer.
func (m *model) judgeFirst(s *subject, e event, inst *knownInstance) {
	if inst.doubted {
		return
	}
	there := inst.seen == e.writer || inst.since.Before(e.writer.started)
	if there && s.heard != e.writer && s.met != e.writer {
		m.fault("4: %s was registered (%s) before anybody had answered, and its instance was there already", s.id, e.after.Status)
	}
}

// mayFall says whether a check may turn from passing to critical.
func (m *model) mayFall(s *subject, e event) bool {
	if e.at.Sub(s.bad) < memory {
		return true
	}
	if e.what == "expire" {
		return e.at.Sub(s.lived) > m.scene.settings.TTL-m.beat()
	}
	if e.writer == nil {
		return true // an owner's registration
	}
	// Of a stream that has ended, the last report may be one that came since it was
	// looked at, which is done ten times in a StaleAfter.
	set := m.scene.settings
	silent := e.at.Sub(later(s.good, e.writer.started))
	return set.OnStale != "keep" && silent >= set.StaleAfter-set.StaleAfter/10-set.ReportInterval
}

// beat is how long a check that is kept alive may go without a refresh.
func (m *model) beat() time.Duration { return m.scene.settings.TTL/3 + slack }

// look judges what only time can tell. It is called all the time.
func (m *model) look() {
	defer m.scene.agent.lock()()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, inst := range m.known {
		if m.daemon != nil && now.After(m.calm) && inst.parted.IsZero() && !m.scene.agent.hidden[inst.id] {
			inst.seen = m.daemon
		}
	}
	for _, s := range m.subjects {
		c := m.scene.agent.checks[s.id]
		if holds(c) {
			m.notePresent(s, c.shown)
		}
		m.noteProbe(s, now)
		m.noteAlive(s, now)
		m.noteStale(s, now)
		if holds(c) && c.Status == "passing" {
			m.judgePassing(s, now)
		}
		if m.daemon == nil || !now.After(m.calm) {
			continue
		}
		m.judgeAsked(s)
		if !m.scene.agent.hidden[s.instance] {
			m.judgeCalm(s, c, now)
		}
	}
}

// notePresent notes that a daemon, if it is the one that runs, knows that the check is
// there, and can see it.
func (m *model) notePresent(s *subject, knows *simDaemon) {
	if m.daemon != nil && knows == m.daemon && !m.scene.agent.hidden[s.instance] {
		s.present, s.met = m.daemon, m.daemon
	}
}

// noteProbe notes whether the check has a probe.
func (m *model) noteProbe(s *subject, now time.Time) {
	switch yes, unsure := m.probed(s); {
	case !yes || unsure:
		s.present = nil
	case yes && m.daemon != nil:
		s.tried = m.daemon
		if hidden := m.scene.agent.hidden[s.instance]; now.After(m.calm) && (!hidden || m.known[s.instance].seen == m.daemon) {
			s.explained = m.daemon
		}
	}
}

// noteAlive notes since when, and until when, a check has to be kept alive.
func (m *model) noteAlive(s *subject, now time.Time) {
	switch {
	case !m.mustLive(s, now):
		s.alive = now
	case now.Sub(later(s.alive, m.fine)) >= m.beat():
		s.lived = now
	}
}

// noteStale notes since when a probe is stale for sure: no stream has come, nothing
// was defined anew or hidden by what ails since its last answer, and that was long ago. Nothing
// but an answer ends it, as long as the daemon lives.
func (m *model) noteStale(s *subject, now time.Time) {
	yes, unsure := m.probed(s)
	begin := s.good.Add(m.scene.settings.StaleAfter + slack)
	switch {
	case !yes || unsure || s.heard != m.daemon || m.daemon == nil || now.Before(begin):
		s.stale = time.Time{}
	case s.stale.IsZero() && later(m.stirred, m.fine).Before(s.good) && s.bad.Before(s.good):
		s.stale = now
	}
}

// mustLive says whether a check has to be kept alive now.
func (m *model) mustLive(s *subject, now time.Time) bool {
	yes, unsure := m.probed(s)
	set := m.scene.settings
	switch {
	case m.daemon == nil || m.scene.agent.hidden[s.instance] || m.known[s.instance] == nil || s.shown == "":
		return false
	case unsure:
		return now.Before(m.daemon.started.Add(m.scene.leastGrace))
	case !yes:
		return s.explained != m.daemon && now.Before(m.daemon.started.Add(m.scene.leastGrace))
	case set.OnStale == "keep":
		return true
	case s.heard == m.daemon:
		return now.Before(s.good.Add(set.StaleAfter))
	}
	return now.Before(m.daemon.started.Add(set.AdoptTimeout))
}

// judgePassing judges how long a check may pass (design 7.3).
func (m *model) judgePassing(s *subject, now time.Time) {
	if m.kept {
		return
	}
	set := m.scene.settings
	most := max(set.StaleAfter, set.AdoptTimeout)
	if yes, unsure := m.probed(s); !yes || unsure {
		most = max(most, m.scene.mostGrace)
	}
	since := later(later(s.good, m.scene.lastStart), m.back)
	if m.daemon != nil {
		since = later(since, m.daemon.sighted)
	}
	if bound := most + set.TTL + slack; now.Sub(since) > bound {
		m.fault("7.3: %s passes for %s without a good word, which is more than %s", s.id, now.Sub(since), bound)
	}
}

// judgeAsked judges what Envoys are asked: those that are to observe a probe have
// its cluster, also while its instance is hidden.
func (m *model) judgeAsked(s *subject) {
	yes, unsure := m.probed(s)
	inst := m.known[s.instance]
	if !yes || unsure || inst.veiled || inst.mixed || m.scene.agent.hidden[s.instance] && inst.seen != m.daemon {
		return
	}
	for _, e := range m.envoys {
		if e.order == 0 || e.mute || !m.observes(e, s.instance) {
			continue
		}
		if !slices.ContainsFunc(e.clusters, func(c simCluster) bool { return c.check() == s.id }) {
			m.fault("3: %s is not asked about %s", e.name, s.id)
		}
	}
}

// judgeCalm judges a check when nothing has happened for a while.
func (m *model) judgeCalm(s *subject, c *simCheck, now time.Time) {
	yes, unsure := m.probed(s)
	switch {
	case c != nil && !holds(c) || unsure:
	case yes && c == nil && s.present == m.daemon:
		m.fault("5: %s is lost, and was not restored", s.id)
	case yes:
		m.judgeShown(s, c)
	case holds(c) && (s.explained == m.daemon || now.After(later(m.daemon.started, m.calm).Add(m.scene.mostGrace+slack))):
		m.fault("5: %s is left, and no probe explains it", s.id)
	}
	if holds(c) && m.scene.agent.carried[s.id] != c.Status {
		m.fault("3: the catalog shows %q of %s, and the agent %q", m.scene.agent.carried[s.id], s.id, c.Status)
	}
	begin := now.Add(-time.Minute)
	s.writes = slices.DeleteFunc(s.writes, func(at time.Time) bool { return at.Before(begin) })
	most := int(time.Minute/(m.scene.settings.TTL/3)) + 1
	if begin.After(m.calm) && len(s.writes) > most {
		m.fault("7.5: %d writes of %s in a quiet minute, which is more than %d", len(s.writes), s.id, most)
	}
}

// judgeShown judges the status of a probe's check against what Envoys say.
func (m *model) judgeShown(s *subject, c *simCheck) {
	want, sure := m.worst(s)
	got := ""
	if c != nil {
		got = c.Status
	}
	if sure && got != want {
		m.fault("4: the agent shows %q of %s, and its observers say %q", got, s.id, want)
	}
}

// worst is what the observers of a probe say, and whether that is sure: of each
// the newest stream that has a word, and the worst of all.
func (m *model) worst(s *subject) (status string, sure bool) {
	if inst := m.known[s.instance]; inst == nil || inst.mixed {
		return "", false
	}
	newest := map[string]*simEnvoy{}
	for _, e := range m.envoys {
		if e.order == 0 || !m.observes(e, s.instance) {
			continue
		}
		if e.mute || e.opinionless(m, s.instance) {
			return "", false
		}
		if n := newest[e.id]; n == nil || n.order < e.order {
			newest[e.id] = e
		}
	}
	ranks := []string{"", "passing", "warning", "critical"}
	for _, e := range newest {
		said := statusOf(m.opinion(e, s.instance))
		if m.opinion(e, s.instance) == saysTooMany && (s.instance == "c" || m.known[s.instance].form == formTCP) {
			said = "critical" // codes say nothing of a TCP probe
		}
		if slices.Index(ranks, said) > slices.Index(ranks, status) {
			status = said
		}
	}
	return status, status != ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
