package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// ail makes the agent ail for a while.
func (s *scene) ail(a ailment, reads, writes bool, d time.Duration) {
	s.note(0, "ail", a, reads, writes, d)
	s.ails(a, reads, writes, d)
}

func (s *scene) ails(a ailment, reads, writes bool, d time.Duration) {
	after := hurt
	if a == denying {
		after = deniedFor
	}
	s.model.hurtFor(d + after)
	defer s.agent.lock()()
	s.agent.trouble = trouble{ailment: a, reads: reads, writes: writes, until: time.Now().Add(d)}
}

// restartAgent restarts the agent, which is away for a while.
func (s *scene) restartAgent(gap time.Duration) {
	s.note(0, "restartAgent", gap)
	s.ails(refusing, true, true, gap)
	s.wait(gap)
	s.agent.restart()
	s.model.returned()
}

// wipe makes the agent forget everything; owners register theirs again after a
// while.
func (s *scene) wipe(gap time.Duration) {
	s.note(patience, "wipe", gap)
	before := s.model.registrations()
	for _, inst := range before {
		s.model.deregistered(inst.id)
	}
	s.agent.wipe()
	s.wait(gap)
	for _, inst := range before {
		s.register(inst.id, inst.form, inst.sidecar, false, false)
		s.did = s.did[:len(s.did)-1]
	}
}

// restartDaemon ends the daemon as SIGTERM does, killDaemon as SIGKILL, and starts
// another one after a while.
func (s *scene) restartDaemon(gap time.Duration) {
	s.note(patience, "restartDaemon", gap)
	s.gone()
	if err := s.daemon.stop(); err != nil {
		s.model.broke("the daemon did not end as it should: %v", err)
	}
	s.wait(gap)
	s.begin()
}

func (s *scene) killDaemon(gap time.Duration) {
	s.note(patience, "killDaemon", gap)
	s.gone()
	s.daemon.kill()
	s.wait(gap)
	s.begin()
}

func (s *scene) begin() {
	if err := s.start(); err != nil {
		s.model.broke("the daemon does not start: %v", err)
	}
}

// reload changes the settings of the running daemon.
func (s *scene) reload(ruled bool, onStale string, grace time.Duration) {
	s.note(patience, "reload", ruled, onStale, grace)
	s.model.mu.Lock()
	s.model.stirred = time.Now()
	s.ruled, s.settings.OnStale, s.settings.OrphanGrace = ruled, onStale, grace
	s.model.kept = s.model.kept || onStale == "keep"
	s.leastGrace, s.mostGrace = min(s.leastGrace, grace), max(s.mostGrace, grace)
	s.settings.Rules.Services = nil
	if ruled {
		s.settings.Rules.Services = []probe.Service{{Name: "api", Checks: []probe.Check{{Name: "ready", Settings: probe.Settings{Kind: probe.TCP}}}}}
	}
	s.model.mu.Unlock()
	if _, err := s.daemon.bridge.Reload(); err != nil {
		s.model.broke("reloading: %v", err)
	}
}

// connect starts an Envoy.
func (s *scene) connect(name, id string, offset, first time.Duration) {
	s.note(patience, "connect", name, id, offset, first)
	ctx, cancel := context.WithCancel(context.Background())
	e := &simEnvoy{scene: s, name: name, id: id, offset: offset, first: first, leave: cancel, said: map[string]word{}, stranger: id == "stranger"}
	s.envoys[name] = e
	s.model.mu.Lock()
	s.model.envoys = append(s.model.envoys, e)
	s.model.mu.Unlock()
	s.running.Go(func() { e.run(ctx) })
}

// leave ends an Envoy.
func (s *scene) leave(name string) {
	s.note(patience, "leave", name)
	e := s.envoys[name]
	e.leave()
	delete(s.envoys, name)
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.model.envoys = slices.DeleteFunc(s.model.envoys, func(o *simEnvoy) bool { return o == e })
}

// crashLoop has an Envoy come and go before it has said anything of worth.
func (s *scene) crashLoop(id string, times int) {
	s.note(patience, "crashLoop", id, times)
	for range times {
		s.connect("looping", id, 400*time.Millisecond, time.Hour)
		s.wait(2500 * time.Millisecond)
		s.leave("looping")
		s.did = s.did[:len(s.did)-2]
		s.wait(3 * time.Second)
	}
}

// tell changes what an Envoy says of an instance; empty is what its app is.
func (s *scene) tell(name, instance string, w word) {
	s.note(patience, "tell", name, instance, w)
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.envoys[name].said[instance] = w
}

// turn changes how an app is.
func (s *scene) turn(instance string, w word) {
	s.note(patience, "turn", instance, w)
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.apps[instance] = w
}

// hush ends the reports of an Envoy, or lets them go on.
func (s *scene) hush(name string, mute bool) {
	s.note(patience, "hush", name, mute)
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.envoys[name].mute = mute
}

// lag keeps an Envoy from applying new specifiers for a while.
func (s *scene) lag(name string, d time.Duration) {
	s.note(patience+d, "lag", name, d)
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.envoys[name].lags = time.Now().Add(d)
}
