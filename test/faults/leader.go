package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// voters is how many servers a cluster has.
	voters = 3
	// votesSoon has a server vote that has joined, after 10 s otherwise.
	votesSoon = "autopilot {\n  server_stabilization_time = \"200ms\"\n}\n"
)

// clustered has three servers.
func clustered() setting {
	s := quick()
	s.name, s.cluster = "three-servers", true
	return s
}

// startPeers starts the servers that users do not ask; the first makes the cluster.
func (w *world) startPeers(ctx context.Context) error {
	for n := range voters - 1 {
		opts := lab.ConsulOptions{Name: "faults-peer", Address: fmt.Sprintf(peerAddress, n), Persistent: true, Config: votesSoon}
		if n > 0 {
			opts.Server = w.peers[0]
		}
		peer, err := w.lab.StartConsul(ctx, opts)
		if err != nil {
			return err
		}
		w.ends(peer.Process)
		w.peers = append(w.peers, peer)
	}
	return nil
}

// leaderScenarios lose the leader of three servers.
func leaderScenarios() []scenario {
	s := clustered()
	return []scenario{
		leaderLost(s, how{name: "kill", what: "is killed, and comes back", long: brief(20 * time.Second)}, 20*time.Second, (*lab.Process).Kill, (*lab.Process).Start),
		leaderLost(s, how{name: "stop5s", what: "stands still", long: brief(5 * time.Second), hangs: true}, 5*time.Second,
			signalling(syscall.SIGSTOP), signalling(syscall.SIGCONT)),
	}
}

func signalling(s syscall.Signal) func(*lab.Process) error {
	return func(p *lab.Process) error { return p.Signal(s) }
}

// leaderLost takes the leader away for a time. Apps turn before another leads, and
// again when that must have been overcome: then nobody may notice anything of one that
// is dead still, nor of its return, by which apps turn once more.
func leaderLost(s setting, h how, away time.Duration, take, give func(*lab.Process) error) scenario {
	return ofConsul("leader-"+h.name, "of three servers, the leader "+h.what, h.long, s, func(ctx context.Context, t *trial) error {
		leader, err := t.leadingPeer(ctx)
		if err != nil {
			return err
		}
		lost := time.Now()
		back := func() error {
			if err := lab.Pause(ctx, time.Until(lost.Add(away))); err != nil {
				return err
			}
			return errors.Join(give(leader.Process), leader.WaitReady(ctx), t.whole(ctx))
		}
		f := leaderAllows(s, h)
		err = t.during(f, func() error {
			if err := errors.Join(take(leader.Process), t.elected(ctx, leader)); err != nil || !h.hangs {
				return err
			}
			return errors.Join(back(), t.unlocked(ctx))
		})
		if err != nil {
			return err
		}
		if h.hangs {
			return nil
		}
		if err := errors.Join(lab.Pause(ctx, f.after), t.well(ctx)); err != nil {
			return err
		}
		t.turn()
		err = back()
		t.turn()
		return err
	})
}

// elected turns the apps while no server leads, and waits until another one does.
func (t *trial) elected(ctx context.Context, lost *lab.Consul) error {
	begun := time.Now()
	if err := lab.Pause(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	t.turn()
	if err := t.ledByAnother(ctx, lost, t.server); err != nil {
		return err
	}
	t.note("another server led after %s", seconds(time.Since(begun)))
	return nil
}

// Without a leader, what the agent tells the servers is refused at once. It tries again
// when it is written to next, which a refresh does, too. One that hangs takes the agent
// with it, whoever leads.
func leaderAllows(s setting, h how) fault {
	f := fault{what: "leader", after: s.conf.Checks.TTL/3 + slack}
	if h.hangs {
		f = serverAllows(s, h)
	}
	return f
}

// servers are all.
func (w *world) servers() []*lab.Consul { return append(slices.Clone(w.peers), w.server) }

// leadingPeer is the leader once all servers vote, and users ask another: else that is
// ended, and comes back when another leads.
func (t *trial) leadingPeer(ctx context.Context) (*lab.Consul, error) {
	if err := t.whole(ctx); err != nil {
		return nil, err
	}
	if leader, err := t.leader(ctx, t.server); err != nil || leader != t.server {
		return leader, err
	}
	err := t.during(serverAllows(t.setting, how{ends: true}), func() error {
		if _, err := t.server.Stop(ctx); err != nil {
			return err
		}
		if err := t.ledByAnother(ctx, t.server, t.peers[0]); err != nil {
			return err
		}
		return errors.Join(t.server.Start(), t.server.WaitReady(ctx))
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(t.whole(ctx), t.well(ctx)); err != nil {
		return nil, err
	}
	return t.leader(ctx, t.server)
}

// leader is the server that leads, by what one of them says.
func (w *world) leader(ctx context.Context, says *lab.Consul) (*lab.Consul, error) {
	address, err := says.Client().Status().LeaderWithQueryOptions(query(ctx))
	if err != nil {
		return nil, err
	}
	all := w.servers()
	n := slices.IndexFunc(all, func(c *lab.Consul) bool { return c.RPCAddr() == address })
	if n < 0 {
		return nil, fmt.Errorf("no server leads, but %q", address)
	}
	return all[n], nil
}

// ledByAnother waits until one of the servers says that another one leads.
func (w *world) ledByAnother(ctx context.Context, lost, says *lab.Consul) error {
	return lab.Eventually(ctx, patience, func() error {
		leader, err := w.leader(ctx, says)
		if err == nil && leader == lost {
			err = fmt.Errorf("%s leads", leader.Name())
		}
		return err
	})
}

// whole waits until all servers vote, and there is a leader.
func (w *world) whole(ctx context.Context) error {
	return lab.Eventually(ctx, patience, func() error {
		raft, err := w.server.Client().Operator().RaftGetConfiguration(query(ctx))
		if err != nil {
			return err
		}
		votes := 0
		for _, s := range raft.Servers {
			if s.Voter {
				votes++
			}
		}
		if votes != voters {
			return fmt.Errorf("%d servers vote, and not %d", votes, voters)
		}
		_, err = w.leader(ctx, w.server)
		return err
	})
}
