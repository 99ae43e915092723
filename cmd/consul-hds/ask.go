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
	format  string
}

func registerAsk(fs *flag.FlagSet, env environment, formats string) *askFlags {
	f := &askFlags{options: &config.Options{Environ: env.environ, Flags: map[string]string{}}}
	fileFlags(fs, f.options)
	fs.StringVar(&f.addr, "admin-addr", "", "`address` of the daemon's admin interface. Default: admin.listen of the configuration files given, else 127.0.0.1:8511.")
	fs.StringVar(&f.format, "format", formatTable, "`format` of the output: "+formats+".")
	return f
}

// find completes the flags. Unless it says to go on, the command ends with the
// code.
func (f *askFlags) find(fs *flag.FlagSet, env environment) (code int, ok bool) {
	if f.format != formatTable && f.format != formatJSON {
		return misused(fs, env, fmt.Sprintf("-format=%q is not allowed: %s or %s", f.format, formatTable, formatJSON))
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
	fmt.Fprintf(env.stderr, "%s\nIs it the daemon's admin.listen? Another one is given by -admin-addr, or by the daemon's -config-file.\n", err)
	return exitFailed
}
