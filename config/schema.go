package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
)

// Attribute describes one scalar attribute of the configuration. Files, flags,
// variables and the dump are all made of this description.
type Attribute struct {
	// Path names the attribute in files, blocks before dots: "hds.listen".
	Path string
	// Flag is its flag without the dash; empty for a secret, which has none.
	Flag string
	// Variable is its environment variable.
	Variable string
	// Type is "string", "bool", "int", "duration" or "list of strings".
	Type string
	// Default is its default as a flag would set it.
	Default string
	// Usage is one sentence for the flag's help.
	Usage string
	// Secret values are never shown.
	Secret bool

	words []string
	check func(any) error
	index []int
	typ   reflect.Type
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	typeNames    = map[reflect.Type]string{
		reflect.TypeFor[string]():   "string",
		reflect.TypeFor[bool]():     "bool",
		reflect.TypeFor[int]():      "int",
		durationType:                "duration",
		reflect.TypeFor[[]string](): "list of strings",
	}
)

// Attributes are all scalar attributes, in the order of the schema.
func Attributes() []Attribute {
	return walk(reflect.TypeFor[Config](), "", nil)
}

func walk(t reflect.Type, prefix string, index []int) []Attribute {
	var out []Attribute
	for i := range t.NumField() {
		f := t.Field(i)
		name, block := tagOf(f)
		at := append(slices.Clone(index), i)
		switch {
		case name == "":
		case block:
			out = append(out, walk(f.Type, prefix+name+".", at)...)
		default:
			out = append(out, newAttribute(prefix+name, f.Type, at))
		}
	}
	return out
}

// tagOf is the name in files of a field of Config, and whether it is a block.
func tagOf(f reflect.StructField) (name string, block bool) {
	name, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
	return name, kind == "block"
}

func newAttribute(path string, t reflect.Type, index []int) Attribute {
	s := specs[path]
	flat := strings.ReplaceAll(path, ".", "_")
	a := Attribute{
		Path:     path,
		Flag:     strings.ReplaceAll(flat, "_", "-"),
		Variable: "CONSUL_HDS_" + strings.ToUpper(flat),
		Type:     typeNames[t],
		Default:  s.value,
		Usage:    s.usage,
		Secret:   path == tokenPath,
		words:    s.words,
		check:    s.check,
		index:    index,
		typ:      t,
	}
	if a.Secret {
		a.Flag = "" // the argument list of a process is public
	}
	return a
}

// field is the attribute's field in a configuration.
func (a Attribute) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(a.index)
}

// accept says whether v is allowed, and gives it in its canonical form.
func (a Attribute) accept(v any) (any, error) {
	if s, ok := v.(string); ok && a.words != nil {
		v = strings.ToLower(s)
		if !slices.Contains(a.words, strings.ToLower(s)) {
			return nil, fmt.Errorf("%.80q is not allowed: one of %s", s, strings.Join(a.words, ", "))
		}
	}
	if err := checkText(v); err != nil {
		return nil, err
	}
	if a.check != nil {
		if err := a.check(v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// checkText refuses what no text of ours may hold: it would reach Consul, an
// Envoy or a terminal. The text is not shown, it may be a token.
func checkText(v any) error {
	var texts []string
	switch v := v.(type) {
	case string:
		texts = []string{v}
	case []string:
		texts = v
		if slices.Contains(v, "") {
			return fmt.Errorf("an empty text in the list is not allowed")
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return fmt.Errorf("the text must be valid UTF-8 without control characters")
		}
	}
	return nil
}

// parse reads a flag's or variable's text. Empty text is the caller's to skip.
func (a Attribute) parse(text string) (any, error) {
	switch a.Type {
	case "bool":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not allowed: true or false", text)
		}
		return b, nil
	case "int":
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q is not allowed: a whole number", text)
		}
		return n, nil
	case "duration":
		return parseDuration(text)
	case "list of strings":
		list := strings.Split(text, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return list, nil
	default:
		return text, nil
	}
}

// decode reads a file's value. A nil value is unset: null or an empty string.
func (a Attribute) decode(v cty.Value) (any, error) {
	if unset(v) {
		return nil, nil
	}
	switch a.Type {
	case "bool":
		return boolOf(v)
	case "int":
		return intOf(v)
	case "duration":
		return durationOf(v)
	case "list of strings":
		return listOf(v)
	default:
		return textOf(v)
	}
}

// format gives a value as a flag would set it.
func (a Attribute) format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return formatDuration(v)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// Default is the configuration of a daemon that nothing was said to.
func Default() *Config {
	c := new(Config)
	for _, a := range Attributes() {
		if v, err := a.parse(a.Default); a.Default != "" && err == nil {
			a.field(c).Set(reflect.ValueOf(v))
		}
	}
	return c
}
