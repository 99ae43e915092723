package bridge

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
)

// scene is a random world: an agent, a daemon, Envoys, what happens to them, and
// the model that watches. It lives in the bubble of a synctest; its methods are
// called by one goroutine, and each is a thing that happens.
type scene struct {
	dir, tokenFile string
	settings       Settings
	agent          *simAgent
	model          *model
	daemon         *simDaemon
	daemons        int
	lastStart      time.Time
	envoys         map[string]*simEnvoy
	running        sync.WaitGroup
	// apps is how the instances are, healthy if not told, under the model's lock.
	apps map[string]word
	// ruled says that the config has a probe for the service api.
	ruled bool
	// leastGrace and mostGrace are the orphan graces that there were.
	leastGrace, mostGrace time.Duration
	tokens                int
	// rotated is when the newest token was given, or the first that the daemon has read
	// nothing with since, under the model's lock.
	rotated time.Time
	// did is what happened, as Go calls that make it happen again.
	did []string
}

// form is what a registration says of probes.
type form string

// The forms. The second and third redefine what the first defined.
const (
	formHTTP   form = "http"
	formPath   form = "another path"
	formTCP    form = "tcp"
	formNone   form = "none"
	formOff    form = "off"
	formShadow form = "shadow"
	formBad    form = "bad"
)

func (f form) meta() map[string]string {
	switch f {
	case formHTTP:
		return map[string]string{"hds": "http"}
	case formPath:
		return map[string]string{"hds": "http", "hds_path": "/other"}
	case formTCP:
		return map[string]string{"hds": "tcp"}
	case formOff:
		return map[string]string{"hds": "off"}
	case formShadow:
		return map[string]string{"hds": "http", "hds_mode": "shadow"}
	case formBad:
		return map[string]string{"hds": "http", "hds_interval": "soon"}
	}
	return map[string]string{"other": "meta"}
}

// probed says whether an instance of this form has a check.
func (f form) probed(ruled bool, instance string) bool {
	if instance == "c" {
		return ruled && f == formNone
	}
	return f == formHTTP || f == formPath || f == formTCP
}

// checkOf is the check that an instance may have: c is the one that the config
// rules, with a probe of a name.
func (s *scene) checkOf(instance string) string {
	if instance == "c" {
		return "hds.ready:c"
	}
	return "hds:" + instance
}

func serviceOf(instance string) string {
	if instance == "c" {
		return "api"
	}
	return "web"
}

func sidecarID(instance string) string { return instance + "-sidecar-proxy" }

// newScene makes a world in which a daemon runs, and nothing else.
func newScene(dir string, settings Settings) (*scene, error) {
	s := &scene{
		dir: dir, tokenFile: filepath.Join(dir, "token"), settings: settings, agent: newSimAgent(),
		envoys: map[string]*simEnvoy{}, apps: map[string]word{},
		leastGrace: settings.OrphanGrace, mostGrace: settings.OrphanGrace,
	}
	s.model = newModel(s)
	s.model.kept = settings.OnStale == "keep"
	s.agent.tokens = map[string]bool{"owner": true, "t0": true}
	s.agent.saw = s.model.saw
	if err := os.WriteFile(s.tokenFile, []byte("t0"), 0o600); err != nil {
		return nil, err
	}
	return s, s.start()
}

// prelude is how every world begins.
func (s *scene) prelude() {
	s.register("a", formHTTP, false, false, false)
	s.wait(0)
	s.connect("n1", "node-1", time.Millisecond, 0)
	s.wait(0)
}

// start starts a daemon.
func (s *scene) start() error {
	d, err := s.newDaemon()
	if err != nil {
		return err
	}
	s.lastStart = time.Now()
	d.run(s)
	s.model.disturb(patience)
	s.model.hurtFor(time.Second)
	s.model.mu.Lock()
	s.model.daemon = d
	s.model.mu.Unlock()
	s.daemon = d
	return nil
}

// gone takes in that there is no daemon.
func (s *scene) gone() {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	s.model.daemon = nil
}

// listening is the daemon that Envoys reach, nil without one.
func (s *scene) listening() *simDaemon {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	return s.model.daemon
}

// note notes a thing that happens, and what it may take.
func (s *scene) note(p time.Duration, call string, args ...any) {
	text := make([]string, len(args))
	for i, a := range args {
		text[i] = fmt.Sprintf("%#v", a)
		if d, ok := a.(time.Duration); ok {
			text[i] = fmt.Sprintf("%d", d)
		}
	}
	s.did = append(s.did, fmt.Sprintf("s.%s(%s)", call, strings.Join(text, ", ")))
	s.wait(0) // what happened before has its moment of its own
	s.model.disturb(p)
}

// pass lets time pass. The world's moments are those of no ticker.
func (s *scene) pass(d time.Duration) {
	s.did = append(s.did, fmt.Sprintf("s.pass(%d)", d))
	s.wait(d)
}

func (s *scene) wait(d time.Duration) {
	const step = 250 * time.Millisecond
	for end := time.Now().Add(d + 137*time.Microsecond); time.Now().Before(end); {
		time.Sleep(min(step, time.Until(end)))
		s.model.look()
	}
}

// register registers an instance, for the first time or again.
func (s *scene) register(id string, f form, sidecar, carried, replace bool) {
	s.note(patience, "register", id, f, sidecar, carried, replace)
	s.model.registered(id, f, sidecar)
	inst := &catalog.Instance{ID: id, Service: serviceOf(id), Port: 80, Meta: f.meta()}
	var with []checks.Registration
	if carried {
		s.model.forgetIfUnprobed(id)
		with = append(with, checks.Registration{
			CheckID: s.checkOf(id), ServiceID: id, Name: "carried", Notes: checks.Mark + " carried", TTL: s.settings.TTL, Status: "critical",
		})
	}
	s.agent.put(inst, replace, with...)
	if sidecar {
		s.agent.put(&catalog.Instance{
			ID: sidecarID(id), Service: inst.Service + "-sidecar-proxy", Kind: catalog.KindConnectProxy,
			Proxy: &catalog.Proxy{DestinationServiceName: inst.Service, DestinationServiceID: id, LocalServicePort: 80},
		}, false)
	} else {
		s.agent.drop(sidecarID(id))
	}
}

// deregister removes an instance and its sidecar.
func (s *scene) deregister(id string) {
	s.note(patience, "deregister", id)
	if s.agent.hidden[id] {
		s.show(id)
	}
	s.model.deregistered(id)
	s.agent.drop(sidecarID(id))
	s.agent.drop(id)
}

// lose removes an instance's check behind the daemon's back.
func (s *scene) lose(id string) {
	s.note(patience, "lose", id)
	defer s.agent.lock()()
	s.agent.remove(s.checkOf(id), hand{})
}

// claim puts somebody else's check where ours would be; unclaim removes it.
func (s *scene) claim(id, kind string) {
	s.note(patience, "claim", id, kind)
	s.model.doubt(id)
	s.agent.putCheck(catalog.Check{ID: s.checkOf(id), ServiceID: id, Type: kind, Status: "warning", Notes: "somebody else's"})
	s.model.forget(s.checkOf(id))
}

// maintain puts an instance into maintenance mode.
func (s *scene) maintain(id string) {
	s.note(0, "maintain", id)
	s.agent.putCheck(catalog.Check{ID: "_service_maintenance:" + id, ServiceID: id, Type: "maintenance", Status: "critical"})
}

// hide makes ACLs hide a service, and show ends that.
func (s *scene) hide(id string) {
	s.note(deniedFor, "hide", id)
	s.model.doubt(id)
	defer s.agent.lock()()
	s.agent.hidden[id] = true
}

func (s *scene) show(id string) {
	s.note(deniedFor, "show", id)
	s.model.doubt(id)
	s.model.hurtFor(deniedFor)
	s.model.unveil(id)
	defer s.agent.lock()()
	delete(s.agent.hidden, id)
}

// rotate deletes the daemon's token, and gives it another one after a while.
func (s *scene) rotate(gap time.Duration) {
	s.note(0, "rotate", gap)
	s.tokens++
	s.model.hurtFor(gap + hurt)
	old := fmt.Sprintf("t%d", s.tokens-1)
	unlock := s.agent.lock()
	read := s.daemon == nil || s.daemon.reads[old]
	delete(s.agent.tokens, old)
	s.agent.tokens[fmt.Sprintf("t%d", s.tokens)] = true
	unlock()
	s.wait(gap)
	s.model.mu.Lock()
	if read || s.rotated.IsZero() {
		s.rotated = time.Now()
	}
	s.model.mu.Unlock()
	if err := os.WriteFile(s.tokenFile, fmt.Appendf(nil, "t%d", s.tokens), 0o600); err != nil {
		panic(err)
	}
}

// broken says whether a rule is broken.
func (s *scene) broken() bool {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	return len(s.model.faults) > 0
}

// finish ends what happens: all is healed, everything is removed, and nothing may stay.
func (s *scene) finish() {
	for _, id := range slices.Sorted(maps.Keys(s.agent.hidden)) {
		s.show(id)
	}
	s.wait(time.Until(s.model.calmAt()) + 70*time.Second)
	for _, inst := range s.model.registrations() {
		s.deregister(inst.id)
	}
	s.wait(patience)
	s.model.empty()
}

// close ends whatever runs.
func (s *scene) close() {
	for _, e := range s.envoys {
		e.leave()
	}
	s.gone()
	if err := s.daemon.stop(); err != nil && !s.daemon.isDead() {
		s.model.broke("the daemon did not end as it should: %v", err)
	}
	s.running.Wait()
}
