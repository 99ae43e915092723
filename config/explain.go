package config

import (
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Value is an attribute as it is in force.
type Value struct {
	// Path names the attribute as files do, blocks before dots; those of a check
	// begin with service.<service>.check.<check>.
	Path string `json:"path"`
	// Value is for people. What may be secret is hidden.
	Value string `json:"value"`
	// Source is where the value comes from: file:line, a variable, a flag, or
	// "default". A check that does not set an attribute of the block defaults names
	// that one first.
	Source string `json:"source"`
}

// Values are all attributes of a configuration without errors: those of the schema
// in its order, and then those of each check, as they are for an instance whose
// meta says nothing.
func (l *Loaded) Values() []Value {
	var out []Value
	for _, a := range Attributes() {
		out = append(out, Value{Path: a.Path, Value: a.shown(l.Config), Source: l.sourceOf(a.Path)})
	}
	rules := l.Rules()
	for _, s := range l.Config.Services {
		for _, c := range s.Checks {
			prefix := "service." + s.Name + ".check." + c.Name + "."
			for _, v := range checkValues(c, &rules) {
				v.Path = prefix + v.Path
				out = append(out, v)
			}
		}
	}
	return out
}

// shown is the attribute's value for people.
func (a Attribute) shown(c *Config) string {
	field := a.field(c)
	if a.Secret && !field.IsZero() {
		return hidden
	}
	return a.format(field.Interface())
}

// sourceOf says where an attribute's value comes from.
func (l *Loaded) sourceOf(path string) string {
	source := l.Sources[path].String()
	if path == addressPath && l.https {
		source += ", https:// by the variable CONSUL_HTTP_SSL"
	}
	return source
}

// checkValues are the attributes of a check block; those of a tls block only if
// there is one.
func checkValues(c probe.Check, rules *probe.Rules) []Value {
	found := map[string]probe.Origin{}
	for _, o := range probe.CheckOrigins(c, rules) {
		found[o.Attribute] = o
	}
	kind := string(c.Settings.Kind)
	if c.Settings.TLS != probe.On {
		found["ca_file"] = looseCA(c, rules)
	}
	var out []Value
	for _, name := range checkNames(kind, c.Settings.TLS == probe.On) {
		v := Value{Path: name, Value: found[name].Value, Source: found[name].Source}
		if v.Source == "" {
			v = Value{Path: name, Value: unsetValue(name, kind), Source: Source{}.String()}
		}
		out = append(out, v)
	}
	return out
}

// checkNames are the attributes of a check block with its kind.
func checkNames(kind string, tls bool) []string {
	names := []string{"kind"}
	add := func(prefix string, attributes []checkAttribute) {
		for _, a := range attributes {
			if !tls || a.name != "ca_file" || prefix != "" { // with TLS it is shown as that of tls
				names = append(names, prefix+a.name)
			}
		}
	}
	add("", checkAttributes())
	add(kind+".", kindAttributes(kind))
	names = append(names, kind+".tls")
	if tls {
		add(kind+".tls.", tlsAttributes())
	}
	return names
}

// looseCA is the ca_file of a check without TLS: it is for meta that asks for TLS.
func looseCA(c probe.Check, rules *probe.Rules) probe.Origin {
	c.Settings.TLS = probe.On
	for _, o := range probe.CheckOrigins(c, rules) {
		if o.Attribute == string(c.Settings.Kind)+".tls.ca_file" {
			return o
		}
	}
	return probe.Origin{}
}

// unsetValue is the value of an attribute that nobody has set, and that has no
// other default.
func unsetValue(name, kind string) string {
	switch name {
	case kind + ".http2", kind + ".tls", kind + ".tls.skip_verify":
		return "false"
	}
	return ""
}
