package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/consul-hds/consul-hds/bridge"
)

const cleanupHelp = `
Usage: consul-hds cleanup [options]

  Removes every check that consul-hds has made from the local Consul agent, and
  touches no other: for when consul-hds is uninstalled. It takes the files,
  variables and flags of "consul-hds agent", of which it uses data_dir and the
  block consul. It needs no running daemon, and refuses beside one, which would
  make its checks anew.

  Consul shows a token only what it may read: a check of a service that the
  token does not cover is neither listed nor removed, and is no error. Use a
  token with service:write on every service that was probed.

  Exits with 1 if the agent cannot be asked, a check could not be removed, or a
  daemon is running; with 2 if the configuration is not valid.
`

// runCleanup removes all checks of ours.
func runCleanup(args []string, env environment) int {
	fs := newFlags("cleanup")
	options := configFlags(fs, env)
	dry := fs.Bool("dry-run", false, "Say what would be removed, and remove nothing; also beside a running daemon.")
	force := fs.Bool("force", false, "Clean up also beside a running daemon.")
	if code, ok := parseFlags(fs, args, env, cleanupHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	loaded, ok := loadConfig(*options, env)
	if !ok {
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cleaned, err := bridge.Cleanup(ctx, bridge.CleanupConfig{
		Consul: consulConfig(loaded.Config), DataDir: loaded.Config.DataDir, DryRun: *dry, Force: *force,
	})
	if err != nil {
		fmt.Fprintln(env.stderr, err)
		return exitFailed
	}
	return report(cleaned, *dry, env)
}

// report says what was removed, and gives the exit code.
func report(cleaned []bridge.Cleaned, dry bool, env environment) int {
	code, removed := exitOK, 0
	for _, c := range cleaned {
		if c.Err != nil {
			fmt.Fprintln(env.stderr, c.Err)
			code = exitFailed
			continue
		}
		removed++
		fmt.Fprintf(env.stdout, "%s of service %s\n", c.CheckID, c.ServiceID)
	}
	if len(cleaned) == 0 {
		fmt.Fprintln(env.stdout, "Found no check of consul-hds, as far as the token may read.")
		return code
	}
	fmt.Fprintln(env.stdout, sum(removed, dry))
	return code
}

// sum says how many checks were removed, or would be.
func sum(removed int, dry bool) string {
	noun, verb := "checks", "removed"
	if removed == 1 {
		noun = "check"
	}
	if dry {
		verb = "would be removed"
	}
	return fmt.Sprintf("%d %s %s.", removed, noun, verb)
}
