package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
	"github.com/consul-hds/consul-hds/test/lab/mesh"
)

const (
	// sampleEvery is the pause between the begins of two samples.
	sampleEvery = 20 * time.Millisecond
	// lookTimeout is when a sample is given up, and counts as one that could not be
	// taken.
	lookTimeout = 2 * time.Second
	// requestTimeout is when a user gives up a request, which has failed then.
	requestTimeout = 10 * time.Second
	// inFlight is how many requests are open at most: one that hangs does not keep
	// others from being sent.
	inFlight = 64
)

// oracle samples what users see of a world.
type oracle struct {
	world  *world
	record *record
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// watch starts an oracle. The world has to be well.
func (w *world) watch() *oracle {
	ids, healthy := []string{}, []bool{}
	for _, i := range w.instances {
		ids, healthy = append(ids, i.id), append(healthy, i.healthy)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &oracle{world: w, record: newRecord(time.Now(), ids, healthy), cancel: cancel}
	for s, ask := range w.sources() {
		o.done.Go(func() { lab.Every(ctx, sampleEvery, func() { o.look(ctx, s, ask) }) })
	}
	o.done.Go(func() { o.send(ctx) })
	return o
}

// stop ends the oracle, and returns what it has seen.
func (o *oracle) stop() *record {
	o.cancel()
	o.done.Wait()
	return o.record
}

// ask asks a source of all instances, in their order. It does not set the times.
type ask func(context.Context) (look, error)

func (w *world) sources() map[source]ask { return map[source]ask{catalog: w.askCatalog, dns: w.askDNS} }

func (o *oracle) look(ctx context.Context, s source, ask ask) {
	from := time.Now()
	asked, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l, err := ask(asked)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		o.record.wasAway(s)
	default:
		l.from, l.to = from, time.Now()
		o.record.looked(s, l)
	}
}

// askCatalog asks the server. The read is a consistent one: a server that has just
// started answers others by a log that it has not replayed to its end.
func (w *world) askCatalog(ctx context.Context) (look, error) {
	q := (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	entries, _, err := w.server.Client().Health().Service(serviceName, "", false, q)
	l := look{states: make([]state, len(w.instances)), says: make([]string, len(w.instances))}
	for _, e := range entries {
		n := w.numberOf(func(i *instance) bool { return i.id == e.Service.ID })
		if n >= 0 {
			l.states[n], l.says[n] = w.instances[n].stateBy(e.Checks)
		}
	}
	return l, err
}

// stateBy is the state of an instance that is listed, by its checks, and what that
// of ours says.
func (i *instance) stateBy(checks api.HealthChecks) (state, string) {
	n := slices.IndexFunc(checks, func(c *api.HealthCheck) bool { return c.CheckID == i.checkID() })
	switch {
	case i.elsewhere:
		return passing, ""
	case n < 0:
		return bare, ""
	case checks[n].Status == api.HealthPassing:
		return passing, checks[n].Output
	}
	return critical, checks[n].Output
}

// askDNS asks the agent.
func (w *world) askDNS(ctx context.Context) (look, error) {
	ports, err := w.agent.DNSPorts(ctx, serviceName)
	states := make([]state, len(w.instances))
	for n, i := range w.instances {
		states[n] = critical
		if slices.Contains(ports, i.app.Port()) {
			states[n] = passing
		}
	}
	return look{states: states}, err
}

// send sends requests through the ingress.
func (o *oracle) send(ctx context.Context) {
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
	defer client.CloseIdleConnections()
	var open sync.WaitGroup
	defer open.Wait()
	free := make(chan struct{}, inFlight)
	lab.Every(ctx, sampleEvery, func() {
		select {
		case free <- struct{}{}:
			open.Go(func() {
				o.request(ctx, client)
				<-free
			})
		default:
			o.record.wasAway(traffic)
		}
	})
}

func (o *oracle) request(ctx context.Context, client *http.Client) {
	q := request{from: time.Now()}
	var by string
	by, q.err = mesh.Ask(ctx, client, o.world.entry)
	if ctx.Err() != nil {
		return
	}
	q.to = time.Now()
	q.by = o.world.numberOf(func(i *instance) bool { return i.id == by })
	if q.err == nil && q.by < 0 {
		q.err = fmt.Errorf("a stranger has answered, %q", by)
	}
	o.record.asked(q)
}
