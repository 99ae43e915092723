package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/consul-hds/consul-hds/bridge"
	"github.com/consul-hds/consul-hds/config"
)

const statusHelp = `
Usage: consul-hds status [options]

  Asks a running daemon what it probes, who observes it, and what is wrong.
  Exits with 1 if the daemon cannot be asked.
`

// runStatus shows the status of a running daemon.
func runStatus(args []string, env environment) int {
	fs := newFlags("status")
	options := &config.Options{Environ: env.environ, Flags: map[string]string{}}
	fileFlags(fs, options)
	addr := fs.String("admin-addr", "", "`address` of the daemon's admin interface. Default: admin.listen of the configuration files given, else 127.0.0.1:8511.")
	format := fs.String("format", "table", "`format` of the output: table or json.")
	if code, ok := parseFlags(fs, args, env, statusHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	if *format != "table" && *format != "json" {
		fmt.Fprintf(env.stderr, "-format=%q is not allowed: table or json\n", *format)
		return exitUsage
	}
	if *addr == "" {
		loaded, ok := loadConfig(*options, env)
		if !ok {
			return exitUsage
		}
		*addr = loaded.Config.Admin.Listen
	}
	s, err := bridge.FetchStatus(context.Background(), *addr)
	if err != nil {
		fmt.Fprintf(env.stderr, "%s\nIs it the daemon's admin.listen? Another one is given by -admin-addr, or by the daemon's -config-file.\n", err)
		return exitFailed
	}
	if err := writeStatus(env.stdout, s, *format); err != nil {
		fmt.Fprintln(env.stderr, err)
		return exitFailed
	}
	return exitOK
}

func writeStatus(w io.Writer, s bridge.Status, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	return writeTables(w, s)
}

// writeTables writes a status for people.
func writeTables(out io.Writer, s bridge.Status) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	synced := "synced"
	if !s.Consul.Synced {
		synced = "not synced: " + s.Consul.Error
	}
	fmt.Fprintf(w, "consul-hds %s on node %q, Consul at %s %s\n", s.Version, s.Node, s.Consul.Address, synced)

	fmt.Fprintf(w, "\nObservers (%d)\n", len(s.Observers))
	if len(s.Observers) > 0 {
		fmt.Fprintln(w, "NODE ID\tKIND\tENVOY\tPROBES\tAPPLIED\tPEER")
	}
	for _, o := range s.Observers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%t\t%s\n", o.NodeID, o.Kind, o.Envoy, o.Probes, o.Applied, o.Peer)
	}
	fmt.Fprintf(w, "\nChecks (%d)\n", len(s.Checks))
	if len(s.Checks) > 0 {
		fmt.Fprintln(w, "SERVICE\tCHECK ID\tPHASE\tSTATUS\tOUTPUT")
	}
	for _, c := range s.Checks {
		status := c.Status
		if status == "" {
			status = "none"
		}
		if c.Maintenance != "" {
			status += ", " + c.Maintenance + " in maintenance"
		}
		phase := c.Phase
		if c.Mode == "shadow" {
			phase += ", shadow"
		}
		if c.Shadow != nil {
			phase += fmt.Sprintf(" (as Consul's own checks: %d of %d)", c.Shadow.Agreed, c.Shadow.Agreed+c.Shadow.Differed)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Service, c.CheckID, phase, status, c.Output)
	}
	fmt.Fprintf(w, "\nProblems (%d)\n", len(s.Problems))
	for _, p := range s.Problems {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.ServiceID, p.Source, p.Message)
	}
	return w.Flush()
}
