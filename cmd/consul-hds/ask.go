package main

import (
	"flag"
	"fmt"

	"github.com/consul-hds/consul-hds/config"
)

// The formats of what a command prints.
const (
	formatTable = "table"
	formatJSON  = "json"
)

// askFlags are the flags of the commands that ask a running daemon.
type askFlags struct {
	options *config.Options
	addr    string
	format  *string
}

func registerAsk(fs *flag.FlagSet, env environment, formats string) *askFlags {
	f := &askFlags{options: &config.Options{Environ: env.environ, Flags: map[string]string{}}}
	fileFlags(fs, f.options)
	fs.StringVar(&f.addr, "admin-addr", "", "`address` of the daemon's admin interface. Default: admin.listen of the configuration files given, else 127.0.0.1:8511.")
	f.format = formatFlag(fs, formats)
	return f
}

// formatFlag registers the flag for the format of the output.
func formatFlag(fs *flag.FlagSet, formats string) *string {
	return fs.String("format", formatTable, "`format` of the output: "+formats+".")
}

// checkFormat ends a command that was given another format.
func checkFormat(fs *flag.FlagSet, format string, env environment) (code int, ok bool) {
	if format == formatTable || format == formatJSON {
		return exitOK, true
	}
	return misused(fs, env, fmt.Sprintf("-format=%q is not allowed: %s or %s", format, formatTable, formatJSON))
}

// find completes the flags. Unless it says to go on, the command ends with the
// code.
func (f *askFlags) find(fs *flag.FlagSet, env environment) (code int, ok bool) {
	if code, ok := checkFormat(fs, *f.format, env); !ok {
		return code, false
	}
	if f.addr != "" {
		return exitOK, true
	}
	loaded, ok := loadConfig(*f.options, env)
	if !ok {
		return exitUsage, false
	}
	f.addr = loaded.Config.Admin.Listen
	return exitOK, true
}

// unanswered ends a command that got no answer.
func unanswered(err error, env environment) int {
	fmt.Fprintf(env.stderr, "%s\nDoes the daemon run, and is this its admin.listen? Another one is given by -admin-addr, or by the daemon's -config-file.\n", err)
	return exitFailed
}
