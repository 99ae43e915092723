package main

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/consul-hds/consul-hds/bridge"
	"github.com/consul-hds/consul-hds/config"
)

const validateHelp = `
Usage: consul-hds validate [options] [FILE-OR-DIRECTORY ...]

  Checks a configuration as the agent would read it, with the environment and
  the flags given. All faults are told at once, with their places. Nothing is
  contacted. Of the files that the configuration names, those of hds.tls are
  read, as the agent does not start without them; no others are.

  With -explain it prints every attribute of a valid configuration, those of
  checks included, with the value that is in force and where that comes from.
  A check is shown as it is for an instance whose meta says nothing. The token,
  values of headers and payloads are hidden.

  Exits with 0 if the configuration is valid, otherwise with 2.
`

// validation is what is found out about a configuration; its JSON is the output
// of -format=json.
type validation struct {
	Valid       bool           `json:"valid"`
	Diagnostics []diagnosis    `json:"diagnostics"`
	Values      []config.Value `json:"values,omitempty"`
}

// diagnosis is one fault or warning. File, Line and Column are of a file's; a
// fault of a flag or a variable names it in Detail.
type diagnosis struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	// Path is that of the attribute, if the fault is one of an attribute's value.
	Path string `json:"path,omitempty"`
}

// runValidate checks a configuration.
func runValidate(args []string, env environment) int {
	fs := newFlags("validate")
	options := configFlags(fs, env)
	format := formatFlag(fs, "table or json")
	explain := fs.Bool("explain", false, "Print each attribute with its value and where that comes from.")
	if code, ok := parseFlags(fs, args, env, validateHelp); !ok {
		return code
	}
	if code, ok := checkFormat(fs, *format, env); !ok {
		return code
	}
	options.Paths = append(options.Paths, fs.Args()...)
	loaded, diags := config.Load(*options)
	diags = append(diags, checkListenerTLS(loaded)...)
	v := newValidation(loaded, diags, *explain)
	if *format == formatJSON {
		printJSON(v, env)
	} else if err := loaded.WriteDiagnostics(env.stderr, diags); err == nil && v.Valid {
		writeValidation(v, *explain, env)
	}
	if !v.Valid {
		return exitUsage
	}
	return exitOK
}

// checkListenerTLS looks at the files of hds.tls.
func checkListenerTLS(loaded *config.Loaded) hcl.Diagnostics {
	c := listenerTLS(loaded.Config)
	if c.KeyFile == "" { // without a certificate there is nothing to look at, with one this is a fault already
		return nil
	}
	if err := bridge.CheckListenerTLS(c); err != nil {
		return hcl.Diagnostics{loaded.Fault("hds.tls.cert_file", err)}
	}
	return nil
}

func newValidation(loaded *config.Loaded, diags hcl.Diagnostics, explain bool) validation {
	v := validation{Valid: !diags.HasErrors(), Diagnostics: []diagnosis{}}
	for _, d := range diags {
		v.Diagnostics = append(v.Diagnostics, diagnose(d))
	}
	if explain && v.Valid {
		v.Values = loaded.Values()
	}
	return v
}

func diagnose(d *hcl.Diagnostic) diagnosis {
	out := diagnosis{Severity: "error", Summary: d.Summary, Detail: d.Detail, Path: config.PathOf(d)}
	if d.Severity == hcl.DiagWarning {
		out.Severity = "warning"
	}
	if r := d.Subject; r != nil {
		out.File, out.Line, out.Column = r.Filename, r.Start.Line, r.Start.Column
	}
	return out
}

// writeValidation writes what there is to say of a valid configuration.
func writeValidation(v validation, explain bool, env environment) {
	if explain {
		rows := [][]cell{{{"Attribute", bold}, {"Value", bold}, {"Source", bold}}}
		for _, a := range v.Values {
			rows = append(rows, row(a.Path, orQuotes(a.Value), a.Source))
		}
		writeTable(env.stdout, rows, coloured(env))
		fmt.Fprintln(env.stdout)
	}
	fmt.Fprintln(env.stdout, "The configuration is valid.")
}

// orQuotes shows that a value is empty.
func orQuotes(value string) string {
	if value == "" {
		return `""`
	}
	return value
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
