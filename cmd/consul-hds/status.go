package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/bridge"
)

const statusHelp = `
Usage: consul-hds status [options]

  Asks a running daemon what it probes, who observes it, and what is wrong.

  Exits with 1 if the daemon cannot be asked and, with -check, if Consul is not
  synced, an observer has not applied what it was sent, a check is stale, or
  there is a problem.
`

// watchEvery is the pause between two looks of -watch.
const watchEvery = 2 * time.Second

// statuses are what -status may filter by.
var statuses = []string{"passing", "warning", "critical", "none"}

// statusFlags are the flags of the command.
type statusFlags struct {
	*askFlags
	filter       bridge.StatusFilter
	watch, check bool
}

func registerStatus(fs *flag.FlagSet, env environment) *statusFlags {
	f := &statusFlags{askFlags: registerAsk(fs, env, "table or json")}
	fs.StringVar(&f.filter.Service, "service", "", "`glob` of the service names or ids to show. Default: all.")
	fs.StringVar(&f.filter.Status, "status", "", "`status` of the checks to show: passing, warning, critical or none. Default: all.")
	fs.BoolVar(&f.watch, "watch", false, "Show it again every 2 seconds, until interrupted.")
	fs.BoolVar(&f.check, "check", false, "Exit with 1 if anything shown is not as it should be.")
	return f
}

// runStatus shows the status of a running daemon.
func runStatus(args []string, env environment) int {
	fs := newFlags("status")
	f := registerStatus(fs, env)
	if code, ok := parseFlags(fs, args, env, statusHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	if f.filter.Status != "" && !slices.Contains(statuses, f.filter.Status) {
		code, _ := misused(fs, env, fmt.Sprintf("-status=%q is not allowed: %s", f.filter.Status, strings.Join(statuses, ", ")))
		return code
	}
	if f.watch && (f.check || *f.format == formatJSON) {
		code, _ := misused(fs, env, "-watch is for people: it goes neither with -check nor with -format=json")
		return code
	}
	if code, ok := f.find(fs, env); !ok {
		return code
	}
	if f.watch {
		return f.follow(env)
	}
	return f.once(context.Background(), env)
}

// once shows the status.
func (f *statusFlags) once(ctx context.Context, env environment) int {
	s, err := bridge.FetchStatus(ctx, f.addr)
	if err != nil {
		return unanswered(err, env)
	}
	s.Checks, s.Problems = f.filter.Checks(s), f.filter.Problems(s)
	code := exitOK
	if *f.format == formatJSON {
		code = printJSON(s, env)
	} else {
		writeStatus(env.stdout, s, coloured(env))
	}
	if f.check && !sound(s) {
		return exitFailed
	}
	return code
}

// follow shows the status again and again. That the daemon is away for a while,
// as in a restart, is shown and no reason to end.
func (f *statusFlags) follow(env environment) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		if terminal(env.stdout) {
			fmt.Fprint(env.stdout, "\x1b[H\x1b[2J") // home, and clear
		}
		f.once(ctx, env)
		select {
		case <-ctx.Done():
			return exitOK
		case <-time.After(watchEvery):
		}
	}
}

// sound says whether all is as it should be.
func sound(s bridge.Status) bool {
	late := slices.ContainsFunc(s.Observers, func(o bridge.StatusObserver) bool { return !o.Applied })
	stale := slices.ContainsFunc(s.Checks, func(c bridge.StatusCheck) bool { return c.Phase == "stale" })
	return s.Consul.Synced && !late && !stale && len(s.Problems) == 0
}

func printJSON(v any, env environment) int {
	e := json.NewEncoder(env.stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		fmt.Fprintln(env.stderr, err)
		return exitFailed
	}
	return exitOK
}
