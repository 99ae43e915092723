package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/consul-hds/consul-hds/test/lab"
)

// diskScenarios leave no space to write.
func diskScenarios() []scenario {
	start := ofConsul("daemon-disk-full-start", "the daemon is restarted while it cannot write a byte", "6s", quick(), diskFullStart)
	start.short = true
	return []scenario{
		ofConsul("agent-disk-full", "the agent cannot write its files", "15s", quick(), diskFull(func(w *world) *lab.Process { return w.agent.Process })),
		ofConsul("daemon-disk-full", "the daemon cannot write a byte", "15s", quick(), diskFull(func(w *world) *lab.Process { return w.daemon.Process })),
		start,
	}
}

// diskFull lets a process write to no file any more, not even to its log, which
// changes nothing for users.
func diskFull(process func(*world) *lab.Process) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		pid := process(t.world).Pid()
		var before unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
			return err
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Max: before.Max}, nil); err != nil {
			return err
		}
		err := around(ctx, 15*time.Second, t.turn)
		return errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil))
	}
}

// diskFullStart restarts the daemon on a full disk, which must not keep it from its
// work, and then lets there be space again.
func diskFullStart(ctx context.Context, t *trial) (err error) {
	program := t.daemon.Binary()
	full, err := t.diskFullProgram(program)
	if err != nil {
		return err
	}
	t.daemon.Replace(full)
	defer t.daemon.Replace(program)
	return t.during(daemonAllows(t.setting, how{ends: true}), func() error {
		if _, err := t.daemon.Stop(ctx); err != nil {
			return err
		}
		if err := errors.Join(t.daemon.Start(), t.daemon.WaitReady(ctx)); err != nil {
			return err
		}
		if lock, err := os.ReadFile(filepath.Join(t.daemon.DataDir(), "consul-hds.lock")); err != nil || len(lock) > 0 {
			return fmt.Errorf("the disk was not full: the lock says %q: %w", lock, err)
		}
		if err := around(ctx, 6*time.Second, t.turn); err != nil {
			return err
		}
		return unix.Prlimit(t.daemon.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
	})
}

// diskFullProgram is a program that becomes another one, which can write to no file.
func (w *world) diskFullProgram(program string) (string, error) {
	path := w.lab.Path("disk-full")
	return path, lab.WriteProgram(path, fmt.Appendf(nil, "#!/bin/sh\nulimit -S -f 0 && exec '%s' \"$@\"\n", program))
}
