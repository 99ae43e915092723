package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// newVersion upgrades the daemon in place to another program, of another version, and
// the next time back to the one before.
func newVersion() scenario {
	p := parts()[slices.IndexFunc(parts(), func(p part) bool { return p.name == "daemon" })]
	s := quick()
	return scenario{
		name: "daemon-new-version", group: "process", what: "daemon is upgraded in place to another version, or back", long: "a restart", setting: s,
		run: func(ctx context.Context, t *trial) error {
			next, err := t.lab.VersionBinary(ctx, "v999.0.0-faults")
			if err != nil {
				return err
			}
			return t.each(ctx, func() error {
				return t.during(p.allows(s, how{ends: true}), func() error {
					before := t.daemon.Binary()
					defer func() { next = before }()
					return t.upgradeTo(ctx, p, next)
				})
			})
		},
	}
}

// upgradeTo puts another program in the place of the daemon's, which is refused while
// the old one runs, and takes over once that has ended.
func (t *trial) upgradeTo(ctx context.Context, p part, binary string) error {
	before, err := t.daemon.Status(ctx)
	if err != nil {
		return err
	}
	t.daemon.Replace(binary)
	if err := refusedTwin(ctx, p, t.world); err != nil {
		return err
	}
	if err := t.runs(ctx, before.Version); err != nil {
		return fmt.Errorf("after the refusal: %w", err)
	}
	if err := restart(ctx, p, t.world, t.turn); err != nil {
		return err
	}
	version, err := t.daemonVersion(ctx)
	if err != nil {
		return err
	}
	if version == before.Version {
		return fmt.Errorf("both programs are of version %s", version)
	}
	t.note("%s took over from %s", version, before.Version)
	return t.runs(ctx, version)
}

// daemonVersion is what the daemon's program says of itself.
func (w *world) daemonVersion(ctx context.Context) (string, error) {
	said, code, err := w.daemon.Command(ctx, "version")
	if words := strings.Fields(said); err == nil && code == 0 && len(words) > 1 {
		return words[1], nil
	}
	return "", errors.Join(err, fmt.Errorf("asked for its version, the daemon's program ended with %d and said %s", code, said))
}

// runs is an error unless the daemon says that it is of a version.
func (t *trial) runs(ctx context.Context, version string) error {
	status, err := t.daemon.Status(ctx)
	if err == nil && status.Version != version {
		err = fmt.Errorf("the daemon is of version %s, and not %s", status.Version, version)
	}
	return err
}
