package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// checkAt is a check block and its place, for the rules that need the defaults.
type checkAt struct {
	settings probe.Settings
	at       hcl.Range
	bad      bool
}

func serviceSchema() *hcl.BodySchema {
	return &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "check", LabelNames: []string{"name"}}}}
}

// readService reads a service block.
func (l *loader) readService(b *hcl.Block) {
	name, at := b.Labels[0], b.LabelRanges[0]
	if first, ok := l.labels[name]; ok {
		l.diags = append(l.diags, duplicate(fmt.Sprintf("service %q", name), first, at))
	} else {
		l.labels[name] = at
	}
	if err := checkText(name); err != nil || name == "" {
		l.refuse("service", at, fmt.Errorf("%.80q is not allowed: the name of a service, or a glob of names", name))
	}
	content, diags := b.Body.Content(serviceSchema())
	l.diags = append(l.diags, diags...)
	if len(content.Blocks) == 0 && !diags.HasErrors() {
		l.refuse("service", at, fmt.Errorf("service %q has no check block: at least one is needed", name))
	}
	service := probe.Service{Name: name}
	first := map[string]hcl.Range{}
	for _, c := range content.Blocks {
		label, at := c.Labels[0], c.LabelRanges[0]
		if err := probe.CheckName(label); err != nil {
			l.refuse("check", at, err)
		}
		if before, ok := first[label]; ok {
			l.diags = append(l.diags, duplicate(fmt.Sprintf("check %q", label), before, at))
		} else {
			first[label] = at
		}
		service.Checks = append(service.Checks, l.readCheck(label, c))
	}
	l.services = append(l.services, service)
}

// readCheck reads a check block with its one kind.
func (l *loader) readCheck(label string, b *hcl.Block) probe.Check {
	before := len(l.diags)
	c := probe.Check{Name: label, Places: probe.Places{}}
	content := l.readSettings(b.Body, "check.", checkAttributes(), kinds, &c)
	for i, kind := range content.Blocks {
		if i > 0 {
			l.refuse("check", kind.DefRange, fmt.Errorf("check %q has a %s block at %s already: exactly one of http, tcp and grpc", label, content.Blocks[0].Type, position(content.Blocks[0].DefRange)))
		}
		l.readKind(kind, "check."+kind.Type, &c)
	}
	if len(content.Blocks) == 0 && len(l.diags) == before {
		l.refuse("check", b.LabelRanges[0], fmt.Errorf("check %q says not what to probe: exactly one of the blocks http, tcp and grpc is needed", label))
	}
	l.checks = append(l.checks, checkAt{settings: c.Settings, at: b.LabelRanges[0], bad: len(l.diags) > before})
	return c
}

// readSettings reads the attributes of a body into c and gives its blocks.
func (l *loader) readSettings(body hcl.Body, prefix string, attributes []checkAttribute, blocks []string, c *probe.Check) *hcl.BodyContent {
	schema := &hcl.BodySchema{}
	for _, a := range attributes {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, name := range blocks {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	content, diags := body.Content(schema)
	l.diags = append(l.diags, diags...)
	for _, a := range attributes {
		at, ok := content.Attributes[a.name]
		if !ok {
			continue
		}
		v, ok := l.value(at)
		if !ok || unset(v) {
			continue
		}
		if err := cmp.Or(checkKeys(at.Expr), a.set(&c.Settings, v)); err != nil {
			l.refuse(prefix+a.name, at.Expr.Range(), err)
		}
		c.Places[strings.TrimPrefix(prefix, "check.")+a.name] = position(at.Expr.Range())
	}
	return content
}

// checkKeys refuses a map with a key given twice, of which one would be lost.
func checkKeys(expr hcl.Expression) error {
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return nil // no map
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		key, _ := p.Key.Value(nil)
		if key.Type() != cty.String || key.IsNull() || !key.IsKnown() {
			continue
		}
		if name := key.AsString(); seen[name] {
			return fmt.Errorf("%.80q is given twice: write one, with a list of all its values", name)
		} else {
			seen[name] = true
		}
	}
	return nil
}

// refuse reports an error at a place in a file.
func (l *loader) refuse(path string, at hcl.Range, err error) {
	l.diags = append(l.diags, diagnostic(hcl.DiagError, path, Source{Range: &at}, err.Error()))
}

// effective is what becomes of a check's settings if its instance's meta says
// nothing.
func effective(s, defaults probe.Settings) probe.Settings {
	s.Interval = cmp.Or(s.Interval, defaults.Interval)
	s.Timeout = cmp.Or(s.Timeout, defaults.Timeout)
	s.HealthyThreshold = cmp.Or(s.HealthyThreshold, defaults.HealthyThreshold)
	s.UnhealthyThreshold = cmp.Or(s.UnhealthyThreshold, defaults.UnhealthyThreshold)
	s.Observer = cmp.Or(s.Observer, defaults.Observer)
	s.TLSCAFile = cmp.Or(s.TLSCAFile, defaults.TLSCAFile)
	if s.Kind == probe.HTTP {
		s.Method = cmp.Or(s.Method, "GET")
	}
	return s
}

// Rules are what the configuration says of probes.
func (c *Config) Rules() probe.Rules {
	return probe.Rules{
		Defaults: probe.Settings{
			Interval:           c.Defaults.Interval,
			Timeout:            c.Defaults.Timeout,
			HealthyThreshold:   c.Defaults.HealthyThreshold,
			UnhealthyThreshold: c.Defaults.UnhealthyThreshold,
			Observer:           probe.ObserverPolicy(c.Defaults.Observer),
			Mode:               probe.Mode(c.Defaults.Mode),
			TLSCAFile:          c.Defaults.CAFile,
		},
		Services: slices.Clone(c.Services),
	}
}
