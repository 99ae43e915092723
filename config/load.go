package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Options say where a configuration comes from. Nothing else is read.
type Options struct {
	// Paths are files and directories, later ones over earlier ones. A file
	// ends in .hcl or .json. Of a directory all such files are read in order of
	// name, without its subdirectories; others are ignored.
	Paths []string
	// Environ is the environment, as of os.Environ.
	Environ []string
	// Flags are the flags given, by the path of their attribute.
	Flags map[string]string
}

// Source says where a value comes from.
type Source struct {
	// Flag is the flag that set it, with the dash.
	Flag string
	// Variable is the environment variable that set it.
	Variable string
	// Range is where a file sets it.
	Range *hcl.Range
}

// String is "default", "the flag -x", "the variable X" or "file:line".
func (s Source) String() string {
	switch {
	case s.Range != nil:
		return position(*s.Range)
	case s.Variable != "":
		return "the variable " + s.Variable
	case s.Flag != "":
		return "the flag " + s.Flag
	default:
		return "default"
	}
}

func position(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// Loaded is what Load has made of its sources.
type Loaded struct {
	// Config is complete, but not to be used if there were errors.
	Config *Config
	// Sources says by path where each attribute's value comes from.
	Sources map[string]Source

	files map[string]*hcl.File
	// https says that CONSUL_HTTP_SSL has put https:// before consul.address.
	https bool
}

// Rules are what the configuration says of probes, with its places.
func (l *Loaded) Rules() probe.Rules {
	rules := l.Config.Rules()
	rules.DefaultPlaces = probe.Places{}
	for path, source := range l.Sources {
		if name, ok := strings.CutPrefix(path, "defaults."); ok {
			rules.DefaultPlaces[name] = source.String()
		}
	}
	return rules
}

// WriteDiagnostics writes diagnostics for people, with the lines of the files
// that they point at, and the column. Tokens in those lines are masked.
func (l *Loaded) WriteDiagnostics(w io.Writer, diags hcl.Diagnostics) error {
	out := hcl.NewDiagnosticTextWriter(w, l.files, 0, false)
	for _, d := range diags {
		placed := *d
		if r := d.Subject; r != nil { // hcl's writer names the line alone
			placed.Summary = fmt.Sprintf("%s:%d:%d: %s", r.Filename, r.Start.Line, r.Start.Column, d.Summary)
		}
		if err := out.WriteDiagnostic(&placed); err != nil {
			return err
		}
	}
	return nil
}

// setting is a value and where it is from; a layer holds those of one kind of
// source, by path.
type (
	setting struct {
		value  any
		source Source
	}
	layer map[string]setting
)

type loader struct {
	attributes []Attribute
	byPath     map[string]Attribute

	consul, files, variables, flags layer

	config   *Config
	sources  map[string]Source
	parsed   map[string]*hcl.File
	order    map[string]int
	secrets  []hcl.Range
	services []probe.Service
	labels   map[string]hcl.Range
	checks   []checkAt
	// https is what CONSUL_HTTP_SSL asks for.
	https bool
	// bad are the paths with a fault, so that rules over several attributes do
	// not add a second one.
	bad   map[string]bool
	diags hcl.Diagnostics
}

// Load reads the configuration: defaults, CONSUL_* variables, files,
// CONSUL_HDS_* variables and flags, each over those before it, attribute by
// attribute. An empty string is unset everywhere. All faults of all sources
// are reported; with errors among them, the result is good for
// WriteDiagnostics only. Load is safe for concurrent use.
func Load(o Options) (*Loaded, hcl.Diagnostics) {
	l := newLoader()
	l.readVariables(o.Environ)
	l.readFlags(o.Flags)
	l.readPaths(o.Paths)
	return l.finish()
}

func newLoader() *loader {
	l := &loader{
		attributes: Attributes(),
		byPath:     map[string]Attribute{},
		consul:     layer{},
		files:      layer{},
		variables:  layer{},
		flags:      layer{},
		config:     Default(),
		sources:    map[string]Source{},
		parsed:     map[string]*hcl.File{},
		order:      map[string]int{},
		labels:     map[string]hcl.Range{},
		bad:        map[string]bool{},
	}
	for _, a := range l.attributes {
		l.byPath[a.Path] = a
	}
	return l
}

func (l *loader) finish() (*Loaded, hcl.Diagnostics) {
	layers := []layer{l.consul, l.files, l.variables, l.flags}
	l.chooseToken(layers)
	for _, a := range l.attributes {
		l.sources[a.Path] = Source{}
		for _, from := range layers {
			if s, ok := from[a.Path]; ok {
				a.field(l.config).Set(reflect.ValueOf(s.value))
				l.sources[a.Path] = s.source
			}
		}
	}
	https := l.https && !strings.Contains(l.config.Consul.Address, "://")
	if https {
		l.config.Consul.Address = "https://" + l.config.Consul.Address
	}
	l.config.Services = l.services
	l.checkRules()
	slices.SortStableFunc(l.diags, l.compare)
	return &Loaded{Config: l.config, Sources: l.sources, files: masked(l.parsed, l.secrets), https: https}, l.diags
}

// compare puts faults without a place first, then those of files as people
// read them.
func (l *loader) compare(a, b *hcl.Diagnostic) int {
	place := func(d *hcl.Diagnostic) (file, byte int) {
		if d.Subject == nil {
			return -1, 0
		}
		return l.order[d.Subject.Filename], d.Subject.Start.Byte
	}
	f1, b1 := place(a)
	f2, b2 := place(b)
	return cmp.Or(cmp.Compare(f1, f2), cmp.Compare(b1, b2))
}

// chooseToken lets the highest layer that sets token or token_file decide for
// both: else a token file in the environment would hide a token in a file.
func (l *loader) chooseToken(layers []layer) {
	decided := false
	for _, from := range slices.Backward(layers) {
		token, ok1 := from[tokenPath]
		file, ok2 := from[tokenFilePath]
		if decided {
			delete(from, tokenPath)
			delete(from, tokenFilePath)
		}
		decided = decided || ok1 || ok2
		if ok1 && ok2 {
			l.fault(tokenFilePath, file.source, fmt.Errorf("only one of token and token_file may be set; the token is from %s", token.source))
		}
	}
}

// set puts a value into a layer if it is allowed.
func (l *loader) set(to layer, a Attribute, v any, from Source) {
	v, err := a.accept(v)
	if err != nil {
		l.fault(a.Path, from, err)
		return
	}
	to[a.Path] = setting{value: v, source: from}
}

// setText puts a flag's or a variable's text into a layer.
func (l *loader) setText(to layer, a Attribute, text string, from Source) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	v, err := a.parse(text)
	if err != nil {
		l.fault(a.Path, from, err)
		return
	}
	l.set(to, a, v, from)
}

func (l *loader) readFlags(flags map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		if a, ok := l.byPath[path]; ok && a.Flag != "" {
			l.setText(l.flags, a, flags[path], Source{Flag: "-" + a.Flag})
		} else {
			l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown flag", Detail: fmt.Sprintf("There is no flag for %.80q.", path)})
		}
	}
}

// fault reports an error of an attribute.
func (l *loader) fault(path string, from Source, err error) {
	l.bad[path] = true
	l.diags = append(l.diags, diagnostic(hcl.DiagError, path, from, err.Error()))
}

// diagnostic points at the value's place in a file, or names its flag or variable.
func diagnostic(severity hcl.DiagnosticSeverity, path string, from Source, text string) *hcl.Diagnostic {
	summary := "Invalid " + path
	if severity == hcl.DiagWarning {
		summary = "Check " + path
	}
	if from.Range == nil {
		text += " (" + path + " is from " + from.String() + ")"
		if from == (Source{}) {
			text = strings.TrimSuffix(text, "from default)") + "at its default)"
		}
	}
	return &hcl.Diagnostic{Severity: severity, Summary: summary, Detail: text + ".", Subject: from.Range, Extra: ofAttribute(path)}
}

// ofAttribute is the path of the attribute that a diagnostic is about.
type ofAttribute string

// PathOf is the path of the attribute that a diagnostic is about, such as
// hds.listen, or check.http.path for one of a check; empty if it is about none.
func PathOf(d *hcl.Diagnostic) string {
	path, _ := d.Extra.(ofAttribute)
	return string(path)
}

// Fault is an error of an attribute that is found outside of this package, such
// as that a file which it names cannot be used.
func (l *Loaded) Fault(path string, err error) *hcl.Diagnostic {
	return diagnostic(hcl.DiagError, path, l.Sources[path], err.Error())
}
