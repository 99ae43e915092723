package bridge

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pastWorld is a run of TestRandomWorld, after its prelude.
type pastWorld struct {
	initial, onStale string
	live             func(s *scene)
}

// TestWorldsThatOnceBroke are the shortest runs of TestRandomWorld that broke a
// rule, of the product or of one that was broken on purpose. A failing run prints
// itself as such calls.
func TestWorldsThatOnceBroke(t *testing.T) {
	worlds := worldsOfConsul()
	maps.Copy(worlds, worldsOfEnvoys())
	maps.Copy(worlds, worldsOfDaemons())
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			set := worldSettings()
			set.InitialStatus, set.OnStale = world.initial, world.onStale
			s, panicked := inBubble(t, t.TempDir(), set, func(s *scene) {
				s.prelude()
				world.live(s)
			})
			require.Nil(t, panicked)
			s.judge(t)
		})
	}
}

// worldsOfConsul are about owners, other writers of checks, and tokens.
func worldsOfConsul() map[string]pastWorld {
	return map[string]pastWorld{
		"a stale status that had no check while somebody else's stood there": {"critical", "expire", func(s *scene) {
			s.claim("a", "http")
			s.pass(4 * time.Millisecond)
			s.hush("n1", true)
			s.register("c", formNone, true, true, true)
			s.pass(65392 * time.Millisecond)
			s.wipe(time.Millisecond)
			s.pass(81339 * time.Millisecond)
		}},
		"bad meta and another observer while it was hidden": {"critical", "expire", func(s *scene) {
			s.hide("a")
			s.connect("x", "stranger", 20000000, 2000000000)
			s.connect("sb", "b-sidecar-proxy", 1000000, 2000000000)
			s.connect("n2", "node-2", 20000000, 0)
			s.claim("a", "ttl")
			s.register("c", formNone, true, false, false)
			s.connect("n1 again", "node-1", 1000000, 3049000000)
			s.pass(88452 * time.Millisecond)
			s.register("a", formBad, true, false, false)
			s.show("a")
		}},
		"an orphan that its owner registers anew": {"critical", "expire", func(s *scene) {
			s.claim("a", "http")
			s.register("c", formNone, true, false, false)
			s.deregister("a")
			s.register("c", formNone, false, true, false)
			s.pass(20 * time.Second)
			s.deregister("c")
			s.register("c", formNone, false, true, true)
		}},
		"off and a new rule at one moment": {"critical", "expire", func(s *scene) {
			s.register("c", formNone, true, true, true)
			s.pass(18131 * time.Millisecond)
			s.register("c", formOff, true, false, false)
			s.reload(true, "expire", 45*time.Second)
		}},
		"off as soon as it was registered": {"critical", "expire", func(s *scene) {
			s.pass(9 * time.Millisecond)
			s.register("a", formOff, true, true, false)
		}},
		"a foreign check that became ours by a registration": {"critical", "critical", func(s *scene) {
			s.claim("a", "ttl")
			s.register("a", formHTTP, true, true, false)
			s.crashLoop("node-2", 11)
		}},
		"a foreign check where a shadow has its own": {"none", "critical", func(s *scene) {
			s.pass(10 * time.Second)
			s.claim("a", "http")
			s.register("a", formShadow, false, true, false)
			s.pass(20 * time.Second)
		}},
		"a foreign check instead of ours": {"critical", "expire", func(s *scene) {
			s.pass(10 * time.Second)
			s.claim("a", "ttl")
			s.pass(60 * time.Second)
		}},
		"a foreign check that came while the token was dead": {"critical", "expire", func(s *scene) {
			s.register("c", formOff, false, true, false)
			s.pass(2 * time.Second)
			s.rotate(60 * time.Millisecond)
			s.claim("c", "ttl")
			s.pass(70 * time.Second)
		}},
		"an instance that the token may not see for a while": {"critical", "expire", func(s *scene) {
			s.pass(10 * time.Second)
			s.hide("a")
			s.pass(100 * time.Second)
		}},
		"a status that turns after a token has died": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.rotate(60 * time.Millisecond)
			s.pass(30 * time.Second)
			s.turn("a", saysUnhealthy)
			s.pass(15 * time.Second)
		}},
		"a check that is lost while Envoys are silent": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.hush("n1", true)
			s.lose("a")
			s.pass(15 * time.Second)
		}},
	}
}

// worldsOfEnvoys are about what is said and by whom.
func worldsOfEnvoys() map[string]pastWorld {
	return map[string]pastWorld{
		"two Envoys, two opinions": {"critical", "expire", func(s *scene) {
			s.connect("n2", "node-2", time.Millisecond, 0)
			s.tell("n2", "a", saysUnhealthy)
			s.pass(15 * time.Second)
			s.leave("n2")
			s.pass(15 * time.Second)
			s.connect("n1 again", "node-1", time.Millisecond, 0)
			s.tell("n1 again", "a", saysTooMany)
			s.pass(15 * time.Second)
		}},
		"streams that come and say nothing": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.leave("n1")
			s.crashLoop("node-1", 15)
		}},
		"an Envoy that is silent for ever beside one that dies": {"critical", "expire", func(s *scene) {
			s.hush("n1", true)
			s.connect("n1 again", "node-1", 250*time.Millisecond, 600*time.Millisecond)
			s.pass(83 * time.Second)
			s.leave("n1 again")
			s.pass(40 * time.Second)
		}},
		"an instance that comes back without an answer": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.deregister("a")
			s.leave("n1")
			s.pass(12 * time.Second)
			s.register("a", formHTTP, false, false, false)
			s.pass(15 * time.Second)
		}},
		"bad news that counts as soon as it may": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.leave("n1")
			s.connect("n2", "node-2", 20*time.Millisecond, 3049*time.Millisecond)
			s.pass(10 * time.Second)
		}},
		"bad news that ends without an answer before it counts": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.leave("n1")
			s.connect("n2", "node-2", 20*time.Millisecond, 3049*time.Millisecond)
			s.tell("n2", "a", saysUnknown)
			s.pass(15 * time.Second)
		}},
		"an Envoy that still has the cluster of an instance that is gone": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.lag("n1", 20*time.Second)
			s.deregister("a")
			s.pass(10 * time.Second)
			s.register("a", formHTTP, false, false, false)
			s.pass(30 * time.Second)
		}},
		"a stranger that tells of what it was not asked": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.connect("x", "stranger", time.Millisecond, 0)
			s.tell("x", "a", saysUnhealthy)
			s.pass(15 * time.Second)
		}},
	}
}

// worldsOfDaemons are about what a daemon finds, and what it may not know.
func worldsOfDaemons() map[string]pastWorld {
	return map[string]pastWorld{
		"a sidecar that the daemon hears of late, as the agent hangs": {"critical", "expire", func(s *scene) {
			s.crashLoop("node-1", 1)
			s.register("a", formHTTP, true, true, true)
			s.ail(hanging, true, false, 138*time.Millisecond)
			s.register("c", formNone, false, false, true)
		}},
		"a status that was kept through the agent's restart": {"critical", "keep", func(s *scene) {
			s.pass(21669 * time.Millisecond)
			s.leave("n1")
			s.restartAgent(31675 * time.Millisecond)
			s.crashLoop("node-1", 15)
		}},
		"a daemon that starts while the agent answers nobody": {"critical", "expire", func(s *scene) {
			s.pass(17800 * time.Millisecond)
			s.leave("n1")
			s.ail(failing, true, true, 20*time.Second)
			s.restartDaemon(12 * time.Millisecond)
			s.pass(90 * time.Second)
		}},
		"a probe that is stale in shadow mode, and then is not in it": {"critical", "expire", func(s *scene) {
			s.register("b", formShadow, false, false, false)
			s.pass(10 * time.Second)
			s.leave("n1")
			s.pass(2 * time.Minute)
			s.register("b", formHTTP, false, false, false)
			s.pass(time.Minute)
		}},
		"a carried check that nothing explains": {"critical", "expire", func(s *scene) {
			s.register("b", formNone, false, true, false)
			s.pass(50 * time.Second)
		}},
		"a daemon that was killed and a token that died": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.killDaemon(3 * time.Second)
			s.rotate(5 * time.Second)
			s.pass(40 * time.Second)
		}},
		"an instance without a check that was there before the daemon": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.leave("n1")
			s.lose("a")
			s.killDaemon(5 * time.Second)
			s.pass(30 * time.Second)
		}},
		"a check that a daemon finds and nobody answers for": {"critical", "expire", func(s *scene) {
			s.pass(5 * time.Second)
			s.leave("n1")
			s.restartDaemon(time.Second)
			s.pass(60 * time.Second)
		}},
		"a passing check that nothing explains": {"critical", "expire", func(s *scene) {
			s.reload(false, "expire", 45*time.Second)
			s.pass(5 * time.Second)
			s.register("a", formBad, false, false, false)
			s.restartDaemon(time.Second)
			s.pass(60 * time.Second)
		}},
	}
}
