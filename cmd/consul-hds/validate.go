package main

import (
	"fmt"

	"github.com/consul-hds/consul-hds/bridge"
	"github.com/consul-hds/consul-hds/config"
)

const validateHelp = `
Usage: consul-hds validate [options] [FILE-OR-DIRECTORY ...]

  Checks a configuration as the agent would read it, with the environment and
  the flags given. All faults are told at once, with their places. Nothing is
  contacted. Of the files that the configuration names, those of hds.tls are
  read, as the agent does not start without them; no others are.

  Exits with 0 if the configuration is valid, otherwise with 2.
`

// runValidate checks a configuration.
func runValidate(args []string, env environment) int {
	fs := newFlags("validate")
	options := configFlags(fs, env)
	if code, ok := parseFlags(fs, args, env, validateHelp); !ok {
		return code
	}
	options.Paths = append(options.Paths, fs.Args()...)
	loaded, ok := loadConfig(*options, env)
	if !ok {
		return exitUsage
	}
	if err := bridge.CheckListenerTLS(listenerTLS(loaded.Config)); err != nil {
		fmt.Fprintf(env.stderr, "Error: Invalid hds.tls\n\n%s.\n", err)
		return exitUsage
	}
	fmt.Fprintln(env.stdout, "The configuration is valid.")
	return exitOK
}

// loadConfig loads the configuration and writes its faults and warnings. It
// says whether there is no fault.
func loadConfig(o config.Options, env environment) (*config.Loaded, bool) {
	loaded, diags := config.Load(o)
	if err := loaded.WriteDiagnostics(env.stderr, diags); err != nil {
		return nil, false
	}
	return loaded, !diags.HasErrors()
}
