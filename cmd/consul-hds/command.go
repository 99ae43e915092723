package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	// exitUsage is for bad flags and for an invalid configuration.
	exitUsage = 2
)

// environment is what a command may use of its process.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
}

// getenv is the value of a variable, empty if there is none. As with
// os.Getenv, the last of equal names counts.
func (e environment) getenv(name string) string {
	value := ""
	for _, kv := range e.environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value = v
		}
	}
	return value
}

// command is one subcommand.
type command struct {
	name     string
	synopsis string
	// run gives the exit code.
	run func(args []string, env environment) int
}

// commands are the subcommands in the order of the usage text.
func commands() []command {
	return []command{
		{name: "agent", synopsis: "Run the daemon", run: runAgent},
		{name: "status", synopsis: "Show what a running daemon does", run: runStatus},
		{name: "explain", synopsis: "Explain why a check is what it is", run: runExplain},
		{name: "bootstrap", synopsis: "Make an Envoy an observer, by its bootstrap", run: runBootstrap},
		{name: "cleanup", synopsis: "Remove every check that consul-hds has made", run: runCleanup},
		{name: "validate", synopsis: "Check configuration files", run: runValidate},
		{name: "version", synopsis: "Print the version", run: runVersion},
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: consul-hds <command> [options]\n\nCommands:\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "    %-12s%s\n", c.name, c.synopsis)
	}
	fmt.Fprint(w, "\nUse \"consul-hds help <command>\" for the options of a command.\n")
}

// newFlags is the flag set of a command; parseFlags writes what it says.
func newFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parseFlags reads the arguments of a command. Unless it says to go on, the
// command ends with the code: help was asked for, or the flags are bad.
// synopsis is the text of the help above the options.
func parseFlags(fs *flag.FlagSet, args []string, env environment, synopsis string) (code int, ok bool) {
	switch err := fs.Parse(args); {
	case err == nil:
		return exitOK, true
	case errors.Is(err, flag.ErrHelp):
		writeHelp(env.stdout, fs, synopsis)
		return exitOK, false
	default:
		return misused(fs, env, err.Error())
	}
}

// misused ends a command that was used wrongly: what was wrong must not drown in
// all that would be right.
func misused(fs *flag.FlagSet, env environment, what string) (code int, ok bool) {
	fmt.Fprintf(env.stderr, "%s\n\nUse \"consul-hds help %s\" for the options.\n", what, fs.Name())
	return exitUsage, false
}

// refuseArguments ends a command that takes no arguments but was given some.
func refuseArguments(fs *flag.FlagSet, env environment) (code int, ok bool) {
	if fs.NArg() == 0 {
		return exitOK, true
	}
	what := fmt.Sprintf("%s takes no argument such as %q", fs.Name(), fs.Arg(0))
	if fs.Lookup("config-file") != nil {
		what += "; a configuration file is given by -config-file, a directory by -config-dir"
	}
	return misused(fs, env, what)
}

// writeHelp writes the help of a command as Consul's commands do.
func writeHelp(w io.Writer, fs *flag.FlagSet, synopsis string) {
	fmt.Fprintf(w, "%s\n", strings.TrimSpace(synopsis))
	title := "\nOptions:\n"
	fs.VisitAll(func(f *flag.Flag) {
		fmt.Fprint(w, title)
		title = ""
		kind, text := flag.UnquoteUsage(f)
		if a, ok := f.Value.(*attributeFlag); ok && kind != "" {
			kind = a.kind()
		}
		if kind != "" {
			kind = "=<" + kind + ">"
		}
		fmt.Fprintf(w, "\n  -%s%s\n      %s", f.Name, kind, text)
		if f.DefValue != "" && kind != "" {
			fmt.Fprintf(w, " Default: %s.", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}
