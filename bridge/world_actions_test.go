package bridge

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// one draws one of some values.
func one[T any](r *rapid.T, label string, from ...T) T { return rapid.SampledFrom(from).Draw(r, label) }

// millis draws a time in whole milliseconds.
func millis(r *rapid.T, label string, least, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()).Draw(r, label)) * time.Millisecond
}

func yes(r *rapid.T, label string) bool { return rapid.Bool().Draw(r, label) }

// actions are what may happen, for rapid to choose from.
func actions(s *scene) map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"pass":     func(r *rapid.T) { s.pass(millis(r, "for", time.Millisecond, 20*time.Second)) },
		"passLong": func(r *rapid.T) { s.pass(millis(r, "for", 20*time.Second, 100*time.Second)) },
		"": func(*rapid.T) {
			s.wait(0)
			if s.broken() {
				panic(errBroken)
			}
		},
	}
	maps.Copy(all, ownersDo(s))
	maps.Copy(all, consulDoes(s))
	maps.Copy(all, envoysDo(s))
	return all
}

// ownersDo is what the owners of services do.
func ownersDo(s *scene) map[string]func(*rapid.T) {
	registered := func(r *rapid.T) string {
		all := s.model.registrations()
		if len(all) == 0 {
			r.Skip("nothing is registered")
		}
		return all[rapid.IntRange(0, len(all)-1).Draw(r, "which")].id
	}
	register := func(r *rapid.T) {
		id := one(r, "instance", "a", "b", "c")
		forms := []form{formHTTP, formHTTP, formPath, formTCP, formNone, formOff, formShadow, formBad}
		if id == "c" {
			forms = []form{formNone, formNone, formOff}
		}
		s.register(id, one(r, "form", forms...), yes(r, "sidecar"), yes(r, "carried"), yes(r, "replace"))
	}
	return map[string]func(*rapid.T){
		"register": register, "registerMore": register,
		"deregister": func(r *rapid.T) { s.deregister(registered(r)) },
		"lose":       func(r *rapid.T) { s.lose(registered(r)) },
		"claim":      func(r *rapid.T) { s.claim(registered(r), one(r, "type", "http", "ttl")) },
		"maintain":   func(r *rapid.T) { s.maintain(registered(r)) },
		"hide":       func(r *rapid.T) { s.hide(registered(r)) },
		"show":       func(r *rapid.T) { s.show(registered(r)) },
		"turn": func(r *rapid.T) {
			s.turn(one(r, "instance", "a", "b", "c"), one(r, "to", saysHealthy, saysHealthy, saysUnhealthy, saysTimeout, saysTooMany))
		},
	}
}

// consulDoes is what happens to the agent, the daemon and its config.
func consulDoes(s *scene) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"rotate": func(r *rapid.T) { s.rotate(millis(r, "gap", 0, 40*time.Second)) },
		"ail": func(r *rapid.T) {
			s.ail(one(r, "ailment", refusing, failing, hanging, applying, slow, full, denying), yes(r, "reads"), yes(r, "writes"), millis(r, "for", 100*time.Millisecond, 40*time.Second))
		},
		"restartAgent":  func(r *rapid.T) { s.restartAgent(millis(r, "gap", 100*time.Millisecond, 40*time.Second)) },
		"wipe":          func(r *rapid.T) { s.wipe(millis(r, "gap", 0, 10*time.Second)) },
		"restartDaemon": func(r *rapid.T) { s.restartDaemon(millis(r, "gap", 0, 40*time.Second)) },
		"killDaemon":    func(r *rapid.T) { s.killDaemon(millis(r, "gap", 0, 40*time.Second)) },
		"reload": func(r *rapid.T) {
			s.reload(yes(r, "ruled"), one(r, "on_stale", s.settings.OnStale, "expire", "critical", "keep"), one(r, "grace", 30*time.Second, 45*time.Second))
		},
	}
}

// envoysDo is what Envoys do and say.
func envoysDo(s *scene) map[string]func(*rapid.T) {
	ids := map[string]string{"n1": "node-1", "n1 again": "node-1", "n2": "node-2", "sa": sidecarID("a"), "sb": sidecarID("b"), "sc": sidecarID("c"), "x": "stranger"}
	names := slices.Sorted(maps.Keys(ids))
	connected := func(r *rapid.T) string {
		if len(s.envoys) == 0 {
			r.Skip("no Envoy is connected")
		}
		return one(r, "envoy", slices.Sorted(maps.Keys(s.envoys))...)
	}
	connect := func(r *rapid.T) {
		name := one(r, "envoy", names...)
		if s.envoys[name] != nil {
			r.Skip("it is connected")
		}
		const ms = time.Millisecond
		s.connect(name, ids[name], one(r, "offset", ms, 20*ms, 250*ms, 499*ms), one(r, "first", 0, 600*ms, 2000*ms, 3049*ms))
	}
	loop := func(r *rapid.T) {
		s.crashLoop(one(r, "id", "node-1", sidecarID("a"), sidecarID("b")), one(r, "times", 1, 3, 15))
	}
	return map[string]func(*rapid.T){
		"connect": connect, "connectMore": connect, "connectEvenMore": connect, "crashLoop": loop,
		"leave": func(r *rapid.T) { s.leave(connected(r)) },
		"tell": func(r *rapid.T) {
			w := one(r, "word", "", saysHealthy, saysUnhealthy, saysTimeout, saysTooMany, saysDegraded, saysUnknown, saysDraining, saysOdd)
			s.tell(connected(r), one(r, "instance", "a", "b", "c"), w)
		},
		"hush": func(r *rapid.T) { s.hush(connected(r), yes(r, "mute")) },
		"lag":  func(r *rapid.T) { s.lag(connected(r), millis(r, "for", 0, 10*time.Second)) },
	}
}
