// Command consul-hds lets the Envoys of a node run the health checks of its
// Consul services.
package main

import (
	"fmt"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(),
	}))
}

// run dispatches to a command and gives the exit code of the process.
func run(args []string, env environment) int {
	if len(args) == 0 {
		usage(env.stderr)
		return exitUsage
	}
	name, args := args[0], args[1:]
	if name == "help" && len(args) > 0 {
		name, args = args[0], []string{"-help"}
	}
	switch name {
	case "help", "-h", "-help", "--help":
		usage(env.stdout)
		return exitOK
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(args, env)
		}
	}
	fmt.Fprintf(env.stderr, "There is no command %q.\n\n", name)
	usage(env.stderr)
	return exitUsage
}
