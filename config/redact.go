package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const hidden = "(hidden)"

// Public is Redacted for readers who may know less than the files' own: what
// services are asked for, header values and payloads, is hidden as well, for it may
// hold their secrets. It does not load again.
func (c *Config) Public() string {
	public := *c
	public.Services = make([]probe.Service, len(c.Services))
	for i, s := range c.Services {
		checks := slices.Clone(s.Checks)
		for j := range checks {
			hideContent(&checks[j].Settings)
		}
		public.Services[i] = probe.Service{Name: s.Name, Checks: checks}
	}
	return public.Redacted()
}

// hideContent replaces what a probe sends and looks for.
func hideContent(s *probe.Settings) {
	headers := make(map[string][]string, len(s.Headers))
	for name := range s.Headers {
		headers[name] = []string{hidden}
	}
	s.Headers = headers
	for _, p := range []*probe.Payload{&s.Body, &s.Send} {
		if *p != "" {
			*p = hidden
		}
	}
	if len(s.Receive) > 0 {
		s.Receive = []probe.Payload{hidden}
	}
}

// Redacted is the whole configuration as a file of HCL, without its token. What
// else a Config holds it shows, so that it loads again to the same.
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
	write(body, "mode", string(s.Mode))
	if s.TLS != probe.On {
		write(body, "ca_file", s.TLSCAFile) // for meta that asks for TLS
	}
	kind := body.AppendNewBlock(string(s.Kind), nil).Body()
	writeKind(kind, s)
	if s.TLS == probe.On {
		tls := kind.AppendNewBlock("tls", nil).Body()
		write(tls, "server_name", s.TLSServerName)
		write(tls, "ca_file", s.TLSCAFile)
		write(tls, "cert_file", s.TLSCertFile)
		write(tls, "key_file", s.TLSKeyFile)
		if s.TLSSkipVerify != "" {
			tls.SetAttributeValue("skip_verify", cty.BoolVal(s.TLSSkipVerify == probe.On))
		}
	}
}

func writeKind(kind *hclwrite.Body, s probe.Settings) {
	write(kind, "address", s.Address)
	write(kind, "port", s.Port)
	write(kind, "path", s.Path)
	write(kind, "method", s.Method)
	write(kind, "host", s.Host)
	writeHeaders(kind, s.Headers)
	if len(s.ExpectedStatuses) > 0 {
		list := make([]string, len(s.ExpectedStatuses))
		for i, r := range s.ExpectedStatuses {
			list[i] = r.String()
		}
		kind.SetAttributeValue("expected_statuses", valueOf(list))
	}
	write(kind, "http2", s.HTTP2)
	write(kind, "service", s.GRPCService)
	write(kind, "body", payloadText(s.Body))
	write(kind, "send", payloadText(s.Send))
	if len(s.Receive) > 0 {
		list := make([]string, len(s.Receive))
		for i, p := range s.Receive {
			list[i] = payloadText(p)
		}
		kind.SetAttributeValue("receive", valueOf(list))
	}
}

// writeHeaders writes names in quotes: without, a header "for" would begin an
// expression.
func writeHeaders(body *hclwrite.Body, headers map[string][]string) {
	var pairs []hclwrite.ObjectAttrTokens
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		pairs = append(pairs, hclwrite.ObjectAttrTokens{
			Name:  hclwrite.TokensForValue(cty.StringVal(name)),
			Value: hclwrite.TokensForValue(valueOf(headers[name])),
		})
	}
	if len(pairs) > 0 {
		body.SetAttributeRaw("header", hclwrite.TokensForObject(pairs))
	}
}

// payloadText is a payload as ParsePayload reads it: text that a file holds as
// it is, else hex. Files are read in Unicode's normal form C.
func payloadText(p probe.Payload) string {
	s := string(p)
	isText := utf8.ValidString(s) && cty.NormalizeString(s) == s && !strings.HasPrefix(s, "hex:") &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	if isText {
		return s
	}
	return "hex:" + hex.EncodeToString([]byte(s))
}

// write writes an attribute that is set.
func write[T comparable](body *hclwrite.Body, name string, v T) {
	var zero T
	if v != zero {
		body.SetAttributeValue(name, valueOf(v))
	}
}
