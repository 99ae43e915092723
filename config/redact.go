package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const hidden = "(hidden)"

// Redacted is the whole configuration as a file of HCL, without secrets.
func (c *Config) Redacted() string {
	f := hclwrite.NewEmptyFile()
	writeBlock(f.Body(), reflect.ValueOf(*c), "")
	for _, s := range c.Services {
		f.Body().AppendNewline()
		service := f.Body().AppendNewBlock("service", []string{s.Name}).Body()
		for _, check := range s.Checks {
			writeCheck(service.AppendNewBlock("check", []string{check.Name}).Body(), check.Settings)
		}
	}
	return string(hclwrite.Format(f.Bytes()))
}

func writeBlock(body *hclwrite.Body, v reflect.Value, prefix string) {
	for i := range v.NumField() {
		switch name, block := tagOf(v.Type().Field(i)); {
		case name == "":
		case block:
			if prefix == "" {
				body.AppendNewline()
			}
			writeBlock(body.AppendNewBlock(name, nil).Body(), v.Field(i), prefix+name+".")
		case prefix+name == tokenPath && !v.Field(i).IsZero():
			body.SetAttributeValue(name, cty.StringVal(hidden))
		default:
			body.SetAttributeValue(name, valueOf(v.Field(i).Interface()))
		}
	}
}

func valueOf(v any) cty.Value {
	switch v := v.(type) {
	case bool:
		return cty.BoolVal(v)
	case int:
		return cty.NumberIntVal(int64(v))
	case time.Duration:
		return cty.StringVal(formatDuration(v))
	case []string:
		list := make([]cty.Value, len(v))
		for i, s := range v {
			list[i] = cty.StringVal(s)
		}
		return cty.TupleVal(list)
	default:
		return cty.StringVal(fmt.Sprint(v))
	}
}

func writeCheck(body *hclwrite.Body, s probe.Settings) {
	write(body, "interval", s.Interval)
	write(body, "timeout", s.Timeout)
	write(body, "healthy_threshold", s.HealthyThreshold)
	write(body, "unhealthy_threshold", s.UnhealthyThreshold)
	write(body, "observer", string(s.Observer))
	kind := body.AppendNewBlock(string(s.Kind), nil).Body()
	write(kind, "address", s.Address)
	write(kind, "port", s.Port)
	write(kind, "path", s.Path)
	write(kind, "method", s.Method)
	write(kind, "host", s.Host)
	if len(s.ExpectedStatuses) > 0 {
		list := make([]string, len(s.ExpectedStatuses))
		for i, r := range s.ExpectedStatuses {
			list[i] = fmt.Sprintf("%d-%d", r.First, r.Last)
		}
		kind.SetAttributeValue("expected_statuses", valueOf(list))
	}
}

// write writes an attribute that is set.
func write[T comparable](body *hclwrite.Body, name string, v T) {
	var zero T
	if v != zero {
		body.SetAttributeValue(name, valueOf(v))
	}
}
