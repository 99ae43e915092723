package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"syscall"
)

const maxFile = 1 << 20

func (l *loader) readPaths(paths []string) {
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			l.unreadable(path, err)
		case info.IsDir():
			l.readDir(path)
		case !isConfig(path):
			l.unreadable(path, fmt.Errorf("the name of a configuration file ends in .hcl or .json"))
		default:
			l.readFile(path)
		}
	}
}

func (l *loader) readDir(dir string) {
	entries, err := os.ReadDir(dir) // in order of name
	if err != nil {
		l.unreadable(dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); isConfig(path) && !(err == nil && info.IsDir()) {
			l.readFile(path)
		}
	}
}

func isConfig(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".hcl" || ext == ".json"
}

func (l *loader) readFile(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() { // a FIFO would hang its reader
		l.unreadable(path, fmt.Errorf("it is no regular file"))
		return
	}
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(src) > maxFile {
		err = fmt.Errorf("the file is larger than 1 MiB")
	}
	if err != nil {
		l.unreadable(path, err)
		return
	}
	l.readSource(path, src)
}

func (l *loader) unreadable(path string, err error) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot read configuration", Detail: fmt.Sprintf("%s: %s.", path, err)})
}

// readSource reads the text of one file into the layer of files.
func (l *loader) readSource(name string, src []byte) {
	parse, nested := parseHCL, nestsHCL
	if filepath.Ext(name) == ".json" {
		parse, nested = hcljson.Parse, nestsJSON
	}
	l.order[name] = len(l.order)
	if nested(src) {
		l.unreadable(name, fmt.Errorf("it nests brackets too deeply, or holds too many operators"))
		return
	}
	file, diags := parse(src, name)
	l.diags = append(l.diags, diags...)
	if file == nil {
		// The diagnostics still show lines of it.
		l.parsed[name] = &hcl.File{Bytes: src}
		return
	}
	l.parsed[name] = file
	if file.Body != nil {
		l.readBody(file.Body, reflect.TypeFor[Config](), "")
	}
}

func parseHCL(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

// readBody reads the attributes and blocks that the fields of t are.
func (l *loader) readBody(body hcl.Body, t reflect.Type, prefix string) {
	schema := &hcl.BodySchema{}
	blocks := map[string]reflect.Type{}
	for i := range t.NumField() {
		switch name, block := tagOf(t.Field(i)); {
		case block:
			blocks[name] = t.Field(i).Type
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name})
		case name != "":
			schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
		}
	}
	if prefix == "" {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: "service", LabelNames: []string{"name"}})
	}
	content, diags := body.Content(schema)
	l.diags = append(l.diags, diags...)
	for _, a := range content.Attributes {
		l.readAttribute(prefix+a.Name, a)
	}
	first := map[string]hcl.Range{}
	for _, b := range content.Blocks {
		if b.Type == "service" {
			l.readService(b)
			continue
		}
		if before, ok := first[b.Type]; ok {
			l.diags = append(l.diags, duplicate(b.Type+" block", before, b.DefRange))
		} else {
			first[b.Type] = b.DefRange
		}
		l.readBody(b.Body, blocks[b.Type], prefix+b.Type+".")
	}
}

func (l *loader) readAttribute(path string, at *hcl.Attribute) {
	a := l.byPath[path]
	r := at.Expr.Range()
	if a.Secret {
		l.secrets = append(l.secrets, r)
	}
	value, ok := l.value(at)
	if !ok {
		l.bad[path] = true
		return
	}
	from := Source{Range: &r}
	v, err := a.decode(value)
	switch {
	case err != nil:
		l.fault(path, from, err)
	case v != nil:
		l.set(l.files, a, v, from)
	}
}

// value evaluates an attribute. If it cannot be, an error is reported.
func (l *loader) value(at *hcl.Attribute) (v cty.Value, ok bool) {
	v, diags := at.Expr.Value(nil)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() {
		return v, false
	}
	if v.IsWhollyKnown() {
		return v, true
	}
	// What the parser did not understand, and reported.
	if !l.diags.HasErrors() {
		l.refuse(at.Name, at.Range, fmt.Errorf("the value is not known"))
	}
	return v, false
}

func duplicate(what string, first, second hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "Duplicate " + what,
		Detail:   fmt.Sprintf("The first %s is at %s; this one is at %s. Write one.", what, position(first), position(second)),
		Subject:  &second,
	}
}
