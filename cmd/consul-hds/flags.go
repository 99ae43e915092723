package main

import (
	"flag"

	"github.com/consul-hds/consul-hds/config"
)

// configFlags registers the flags of the configuration: the files and one flag
// for each scalar attribute. The options are filled in when the flags are
// parsed; values are judged by config.Load, together with all others.
func configFlags(fs *flag.FlagSet, env environment) *config.Options {
	o := &config.Options{Environ: env.environ, Flags: map[string]string{}}
	fileFlags(fs, o)
	for _, a := range config.Attributes() {
		if a.Flag != "" {
			fs.Var(&attributeFlag{attribute: a, values: o.Flags}, a.Flag, a.Usage)
		}
	}
	return o
}

// fileFlags registers the flags that name configuration files.
func fileFlags(fs *flag.FlagSet, o *config.Options) {
	fs.Var(&pathFlag{&o.Paths}, "config-file", "`path` of a configuration file, .hcl or .json. May be given several times; later ones win.")
	fs.Var(&pathFlag{&o.Paths}, "config-dir", "`path` of a directory whose .hcl and .json files are read in order of name. May be given several times.")
}

// pathFlag gathers the paths of files and directories in the order given.
type pathFlag struct{ paths *[]string }

func (f *pathFlag) Set(s string) error { *f.paths = append(*f.paths, s); return nil }
func (f *pathFlag) String() string     { return "" }

// attributeFlag keeps the text given for an attribute.
type attributeFlag struct {
	attribute config.Attribute
	values    map[string]string
}

func (f *attributeFlag) Set(s string) error { f.values[f.attribute.Path] = s; return nil }
func (f *attributeFlag) String() string     { return f.attribute.Default }

// kind names the form of the value in the help.
func (f *attributeFlag) kind() string {
	if f.attribute.Type == "list of strings" {
		return "list"
	}
	return f.attribute.Type
}

// IsBoolFlag lets a bool be given without a value.
func (f *attributeFlag) IsBoolFlag() bool { return f.attribute.Type == "bool" }
