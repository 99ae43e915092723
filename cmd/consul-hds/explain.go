package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/consul-hds/consul-hds/bridge"
)

const explainHelp = `
Usage: consul-hds explain [options] <service id or check id>

  Asks a running daemon why a check is what it is: the whole chain from the
  registration to what the catalog shows, each link with its time and source,
  and one sentence at the end. Also for an instance that is not probed: why not.

  Exits with 1 if the daemon cannot be asked, or knows no such id.
`

// runExplain shows why the checks of an instance are what they are.
func runExplain(args []string, env environment) int {
	fs := newFlags("explain")
	f := registerAsk(fs, env, "table or json")
	if code, ok := parseFlags(fs, args, env, explainHelp); !ok {
		return code
	}
	if fs.NArg() != 1 {
		code, _ := misused(fs, env, "explain takes one argument, behind the options: the id of a service instance or of a check")
		return code
	}
	if code, ok := f.find(fs, env); !ok {
		return code
	}
	e, err := bridge.FetchExplanation(context.Background(), f.addr, fs.Arg(0))
	switch {
	case bridge.IsNotFound(err):
		fmt.Fprintln(env.stderr, err)
		return exitFailed
	case err != nil:
		return unanswered(err, env)
	case *f.format == formatJSON:
		return printJSON(e, env)
	}
	writeExplanation(env.stdout, e, coloured(env))
	return exitOK
}

// writeExplanation writes an explanation for people.
func writeExplanation(w io.Writer, e bridge.Explanation, colour bool) {
	for _, c := range e.Checks {
		fmt.Fprintln(w, cell{c.CheckID, bold}.painted(colour))
		for i, l := range c.Chain {
			head := fmt.Sprintf("  %d. %-13s", i+1, clean(l.Name))
			fmt.Fprintf(w, "%s%s  [%s%s]\n", head, clean(l.Text), clean(l.Source), moment(l.Time))
			for _, d := range l.Details {
				fmt.Fprintf(w, "                  %s\n", clean(d))
			}
		}
		fmt.Fprintf(w, "\n  %s\n\n", cell{c.Conclusion, bold}.painted(colour))
	}
	for _, p := range e.Problems {
		fmt.Fprintf(w, "%s (%s): %s\n", cell{"Problem", yellow}.painted(colour), clean(p.Source), clean(p.Message))
	}
	if e.Conclusion != "" {
		fmt.Fprintln(w, clean(e.Conclusion))
	}
}

// moment is a time behind a source; nothing for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", " + t.UTC().Format(time.RFC3339)
}
