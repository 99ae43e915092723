package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// envoyScenarios are those of Envoys that do their work, and are asked for much.
func envoyScenarios() []scenario {
	return []scenario{
		{name: "hot-restart", group: "envoy", what: "the node Envoy is hot restarted: for a while two processes observe", long: "3s",
			short: true, setting: quick(), run: hotRestart},
		churning("churn", 4*time.Second, true),
		churning("churn-10m", 10*time.Minute, false),
		simulating("streams", 30, 2*time.Second, true),
		simulating("streams-60s", 100, time.Minute, false),
		{name: "endpoints", group: "envoy", what: fmt.Sprintf("the node Envoy probes %d more endpoints", manyEndpoints), long: "two turns",
			setting: patient(), run: many},
	}
}

// busy is how much longer a turn may take to be seen while a machine is busy with
// what a scenario asks of it.
const busy = 5 * time.Second

// turnBusy turns the apps while nothing is broken.
func (t *trial) turnBusy(why string) error {
	return t.during(fault{what: why, after: busy}, func() error { t.turn(); return nil })
}

// alive is an error if any of the node's Envoys has ended.
func (t *trial) alive(more ...*lab.Envoy) error {
	envoys := append(more, t.node)
	for _, i := range t.instances {
		if i.sidecar != nil {
			envoys = append(envoys, i.sidecar)
		}
	}
	for _, e := range envoys {
		select {
		case <-e.Done():
			return fmt.Errorf("%s has ended; the end of its log:\n%s", e.Name(), e.LogTail(15))
		default:
		}
	}
	return nil
}

// hotRestart puts an Envoy that can be hot restarted in the place of the node
// Envoy, has newer ones take over, and gives the place back.
func hotRestart(ctx context.Context, t *trial) (err error) {
	base, err := t.lab.Port() // no other lab has this number
	if err != nil {
		return err
	}
	if err := t.node.Kill(); err != nil {
		return err
	}
	h := &hotRestarts{trial: t, base: base}
	h.slow(2 * t.setting.conf.HDS.ReportInterval)
	defer func() { err = errors.Join(err, h.giveBack(ctx)) }()
	if h.newest, err = h.startEpoch(ctx, 0); err != nil {
		return err
	}
	if err := h.streams(ctx, 1); err != nil {
		return err
	}
	if err := t.well(ctx); err != nil {
		return err
	}
	return t.each(ctx, func() error {
		f := fault{what: "hot restart", after: t.setting.grace() + slack}
		return t.during(f, func() error { return h.takeOver(ctx) })
	})
}

// hotRestarts are the Envoys of one base id, each of which takes over from the one
// before.
type hotRestarts struct {
	*trial
	base, epoch int
	newest      *lab.Envoy
}

func (h *hotRestarts) startEpoch(ctx context.Context, epoch int) (*lab.Envoy, error) {
	return h.lab.StartEnvoy(ctx, lab.EnvoyOptions{
		Name: "faults-hot-envoy", NodeID: nodeEnvoy, HDSAddr: h.daemon.HDSAddr(), HotRestart: lab.HotRestart{BaseID: h.base, Epoch: epoch},
	})
}

// takeOver starts the next Envoy, turns the apps while both have a stream, and waits
// until the old one has ended by itself.
func (h *hotRestarts) takeOver(ctx context.Context) error {
	old := h.newest
	next, err := h.startEpoch(ctx, h.epoch+1)
	if err != nil {
		return err
	}
	h.newest, h.epoch = next, h.epoch+1
	if err := h.streams(ctx, 2); err != nil {
		return err
	}
	h.turn()
	begun := time.Now()
	ending, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := old.Wait(ending); err != nil {
		return err
	}
	h.note("both processes had a stream for %s after a turn", seconds(time.Since(begun)))
	return h.streams(ctx, 1)
}

// streams waits until the node Envoy's id has so many, each of which has applied what
// it was sent.
func (h *hotRestarts) streams(ctx context.Context, want int) error {
	return lab.Eventually(ctx, patience, func() error {
		status, err := h.daemon.Status(ctx)
		applied := 0
		for _, o := range status.Observers {
			if o.NodeID == nodeEnvoy && o.Applied {
				applied++
			}
		}
		if err == nil && applied != want {
			err = fmt.Errorf("%s has %d streams, and not %d", nodeEnvoy, applied, want)
		}
		return err
	})
}

// slow makes the steady app that the node Envoy probes take so long for an answer. If
// that is longer than a report takes, a new stream calls it unhealthy before its first
// probe has ended, which must not count.
func (h *hotRestarts) slow(answer time.Duration) {
	n := h.numberOf(func(i *instance) bool { return i.healthy && !i.flips && !i.meshed })
	h.instances[n].app.SetDelay(answer)
}

// giveBack puts the node Envoy back in its place.
func (h *hotRestarts) giveBack(ctx context.Context) error {
	h.slow(0)
	var err error
	if h.newest != nil {
		err = h.newest.Kill()
	}
	if err := errors.Join(err, h.node.Start()); err != nil {
		return err
	}
	return errors.Join(h.node.WaitReady(ctx), h.streams(ctx, 1))
}
