package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// source is what is released.
type source struct {
	// root is the root of the repository, absolute.
	root string
	// version is a semantic version with its v, the same that `go install` finds
	// for the commit.
	version string
	// commit are the first 12 digits of its name.
	commit string
	// time is that of the commit, in UTC. Everything in archives and packages has it.
	time time.Time
}

// number is the version without its v, as it stands in the names of files.
func (s source) number() string { return strings.TrimPrefix(s.version, "v") }

// readSource asks git for the commit that is checked out at root.
func readSource(ctx context.Context, root string) (source, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return source{}, err
	}
	head, err := git(ctx, root, "log", "-1", "--abbrev=12", "--format=%ct %h")
	if err != nil {
		return source{}, err
	}
	seconds, commit, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the time of the commit: %w", err)
	}
	src := source{root: root, commit: commit, time: time.Unix(unix, 0).UTC()}
	at, err := git(ctx, root, "tag", "--points-at", "HEAD")
	if err != nil {
		return source{}, err
	}
	before, err := git(ctx, root, "tag", "--merged", "HEAD")
	if err != nil {
		return source{}, err
	}
	src.version = versionName(newest(at), newest(before), src)
	changes, err := git(ctx, root, "status", "--porcelain")
	if changes != "" {
		src.version += "+dirty"
	}
	return src, err
}

// versionName is the tag of the commit or, without one, a version of Go's own
// making: it sorts after the newest tag before the commit, and by time.
func versionName(tag, before string, src source) string {
	if tag != "" {
		return tag
	}
	major := semver.Major(before)
	if major == "" {
		major = "v0"
	}
	return module.PseudoVersion(major, before, src.time, src.commit)
}

// newest is the newest of the tags, one a line, that are versions; it is empty
// if there is none.
func newest(tags string) string {
	found := ""
	for tag := range strings.FieldsSeq(tags) {
		if tag == semver.Canonical(tag) && semver.Compare(tag, found) > 0 {
			found = tag
		}
	}
	return found
}

// git is what a git command prints, without the space around it.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
