// Package nomad decodes the job files of the folder nomad as Nomad's own
// jobspec2 does, without the Nomad module: strictly, into the structs of
// nomad/api. It is a module of its own, so that nomad/api stays out of the
// product's.
package nomad

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
)

// file is the top level of a job file.
type file struct {
	Variables []variable `hcl:"variable,block"`
	Locals    []locals   `hcl:"locals,block"`
	Jobs      []job      `hcl:"job,block"`
}

type variable struct {
	Name        string         `hcl:"name,label"`
	Type        hcl.Expression `hcl:"type"`
	Default     *cty.Value     `hcl:"default"`
	Description string         `hcl:"description,optional"`
}

type locals struct {
	Body hcl.Body `hcl:",remain"`
}

type job struct {
	Name string   `hcl:"name,label"`
	Body hcl.Body `hcl:",remain"`
}

// ParseJob decodes the one job of a file, with the values of its variables. What
// Nomad itself interpolates when the job runs, such as ${NOMAD_TASK_DIR}, stays
// as it is. An attribute or block that nomad/api does not know is an error, and
// so is a function: none is needed so far.
func ParseJob(name string, src []byte, variables map[string]string) (*api.Job, error) {
	parsed, diags := hclparse.NewParser().ParseHCL(src, name)
	if diags.HasErrors() {
		return nil, diags
	}
	var f file
	if diags := gohcl.DecodeBody(parsed.Body, nil, &f); diags.HasErrors() {
		return nil, diags
	}
	if len(f.Jobs) != 1 {
		return nil, fmt.Errorf("%s: %d jobs, not one", name, len(f.Jobs))
	}
	scope, err := newScope(f, variables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// As in jobspec2, the label is the id and the default of the name.
	decoded := &api.Job{ID: &f.Jobs[0].Name, Name: &f.Jobs[0].Name}
	if err := scope.decode(f.Jobs[0].Body.(*hclsyntax.Body), decoded); err != nil {
		return nil, err
	}
	return decoded, nil
}

// scope is what expressions can name: var and local.
type scope map[string]cty.Value

func newScope(f file, given map[string]string) (scope, error) {
	vars := map[string]cty.Value{}
	for _, v := range f.Variables {
		value, ok := given[v.Name]
		switch {
		case ok:
			vars[v.Name] = cty.StringVal(value)
		case v.Default != nil:
			vars[v.Name] = *v.Default
		default:
			return nil, fmt.Errorf("the variable %q has no value", v.Name)
		}
	}
	s := scope{"var": cty.ObjectVal(vars)}
	values := map[string]cty.Value{}
	for _, l := range f.Locals {
		attributes, diags := l.Body.JustAttributes()
		if diags.HasErrors() {
			return nil, diags
		}
		for name, a := range attributes {
			value, err := s.evaluate(a.Expr)
			if err != nil {
				return nil, err
			}
			values[name] = value
		}
	}
	s["local"] = cty.ObjectVal(values)
	return s, nil
}

// evaluate evaluates an expression; what Nomad interpolates at run time becomes
// its own text.
func (s scope) evaluate(expr hcl.Expression) (cty.Value, error) {
	variables := map[string]cty.Value{}
	for name, value := range s {
		variables[name] = value
	}
	atRun := tree{}
	for _, t := range expr.Variables() {
		if isAtRun(t.RootName()) {
			atRun.add(t)
		}
	}
	for name, value := range atRun {
		variables[name] = literal("${"+name, value)
	}
	value, diags := expr.Value(&hcl.EvalContext{Variables: variables})
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return value, nil
}

// isAtRun says whether a name is one that Nomad interpolates when a job is placed
// or run.
func isAtRun(root string) bool {
	switch root {
	case "attr", "node", "meta", "env", "device":
		return true
	}
	return strings.HasPrefix(root, "NOMAD_")
}

// tree holds names with dots: a leaf is an empty tree.
type tree map[string]tree

func (t tree) add(traversal hcl.Traversal) {
	for _, step := range traversal {
		var name string
		switch step := step.(type) {
		case hcl.TraverseRoot:
			name = step.Name
		case hcl.TraverseAttr:
			name = step.Name
		default:
			return // an index: the expression will fail, and say where
		}
		if t[name] == nil {
			t[name] = tree{}
		}
		t = t[name]
	}
}

// literal is the value of a tree whose leaves are what they are called.
func literal(path string, t tree) cty.Value {
	if len(t) == 0 {
		return cty.StringVal(path + "}")
	}
	values := map[string]cty.Value{}
	for name, below := range t {
		values[name] = literal(path+"."+name, below)
	}
	return cty.ObjectVal(values)
}
