package main

import (
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// load is CPU time so far: of the daemon, and of all processes with this one.
type load struct{ daemon, all time.Duration }

// load counts processes that have ended, too. What cannot be read counts as none.
func (c *churn) load() (l load) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			l.all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	l.daemon, _ = c.daemon.CPUTime()
	l.all += l.daemon
	processes := []*lab.Process{c.server.Process, c.consul.Process}
	for _, e := range c.envoys {
		processes = append(processes, e.Process)
	}
	for _, p := range processes {
		t, _ := p.CPUTime()
		l.all += t
	}
	return l
}

// since is the share of a core, in percent, that was used since an earlier time.
func (l load) since(earlier load, took time.Duration) (daemon, all float64) {
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return share(l.daemon - earlier.daemon), share(l.all - earlier.all)
}
