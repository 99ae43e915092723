package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	envoyID = "figures-envoy"
	// patience bounds every wait that is not itself measured.
	patience = time.Minute
)

// stage is a fresh node for one measurement: an agent, and as a rule a daemon
// and a node Envoy at default settings. What is started on it ends with it.
type stage struct {
	lab    *lab.Lab
	consul *lab.Consul
	daemon *lab.Daemon
	envoy  *lab.Envoy
	client *api.Client
	closes []func()
	// setting is what runs on the stage, in words.
	setting string
}

// newAgent starts a stage with an agent alone.
func (f *figures) newAgent(ctx context.Context, opts lab.ConsulOptions) (*stage, error) {
	s := &stage{lab: f.lab, setting: "a node Envoy, default settings"}
	var err error
	if s.consul, err = f.lab.StartConsul(ctx, opts); err != nil {
		return nil, err
	}
	s.ends(s.consul.Process)
	s.client = s.consul.Client()
	return s, nil
}

// newStage starts a whole stage.
func (f *figures) newStage(ctx context.Context, opts lab.ConsulOptions) (*stage, error) {
	s, err := f.newAgent(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := s.startBridge(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// startBridge starts a daemon, with args of its own, and a node Envoy, and waits
// until the daemon knows the Envoy.
func (s *stage) startBridge(ctx context.Context, args ...string) (err error) {
	config := fmt.Sprintf("log_level = \"info\"\nhds {\n  node_ids = [%q]\n}\n", envoyID)
	if s.daemon, err = s.lab.StartDaemon(ctx, lab.DaemonOptions{Consul: s.consul, Config: config, Args: args}); err != nil {
		return err
	}
	s.ends(s.daemon.Process)
	if err := s.daemon.WaitReady(ctx); err != nil {
		return err
	}
	if s.envoy, err = s.lab.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: envoyID, HDSAddr: s.daemon.HDSAddr()}); err != nil {
		return err
	}
	s.ends(s.envoy.Process)
	_, err = s.observer(ctx)
	return err
}

func (s *stage) ends(p *lab.Process) { s.closes = append(s.closes, func() { _ = p.Kill() }) }

// close ends all that was started on the stage, newest first.
func (s *stage) close() {
	for i := len(s.closes) - 1; i >= 0; i-- {
		s.closes[i]()
	}
}

// observer waits until the daemon knows the Envoy, and returns what it knows.
func (s *stage) observer(ctx context.Context) (o lab.StatusObserver, err error) {
	err = lab.Eventually(ctx, patience, func() error {
		st, err := s.daemon.Status(ctx)
		if err != nil {
			return err
		}
		if len(st.Observers) == 0 {
			return errors.New("no Envoy has come yet")
		}
		o = st.Observers[0]
		return nil
	})
	return o, err
}

// versions are those of all that runs on the stage, and the size of the machine.
func (s *stage) versions(ctx context.Context) (string, error) {
	self, err := s.client.Agent().Self()
	if err != nil {
		return "", err
	}
	st, err := s.daemon.Status(ctx)
	if err != nil {
		return "", err
	}
	o, err := s.observer(ctx)
	return fmt.Sprintf("consul-hds %s, Consul %v, Envoy %s, %s, %d cores",
		st.Version, self["Config"]["Version"], o.Envoy, s.setting, runtime.NumCPU()), err
}

// app starts an HTTP app.
func (s *stage) app() (*lab.App, error) {
	a, err := s.lab.StartApp()
	if err == nil {
		s.closes = append(s.closes, a.Close)
	}
	return a, err
}

// register registers an instance, the only one of its service.
func (s *stage) register(id string, port int, meta map[string]string) error {
	return s.client.Agent().ServiceRegister(registration(id, port, meta))
}

func registration(id string, port int, meta map[string]string) *api.AgentServiceRegistration {
	return &api.AgentServiceRegistration{ID: id, Name: id, Address: "127.0.0.1", Port: port, Meta: meta}
}

// until waits until the catalog, which routers read, shows a status; it returns
// how long that took.
func (s *stage) until(ctx context.Context, id, status string) (time.Duration, error) {
	start := time.Now()
	q := (&api.QueryOptions{WaitTime: 10 * time.Second}).WithContext(ctx)
	for time.Since(start) < patience {
		checks, meta, err := s.client.Health().Checks(id, q)
		if err != nil {
			return 0, err
		}
		if len(checks) == 1 && checks[0].Status == status {
			return time.Since(start), nil
		}
		q.WaitIndex = meta.LastIndex
	}
	return 0, fmt.Errorf("%s is not %s within %s", id, status, patience)
}
