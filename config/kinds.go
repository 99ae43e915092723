package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// kinds are the kind blocks of a check. Each may hold a tls block.
var kinds = []string{string(probe.HTTP), string(probe.TCP), string(probe.GRPC)}

// kindAttributes are those of a kind block.
func kindAttributes(kind string) []checkAttribute {
	attributes := []checkAttribute{
		{name: "address", set: text(func(s *probe.Settings) *string { return &s.Address }, probe.CheckAddress)},
		{name: "port", set: number(func(s *probe.Settings) *int { return &s.Port }, probe.CheckPort)},
	}
	switch probe.Kind(kind) {
	case probe.HTTP:
		return append(attributes, httpAttributes()...)
	case probe.TCP:
		return append(attributes, tcpAttributes()...)
	default:
		return append(attributes, grpcAttributes()...)
	}
}

func httpAttributes() []checkAttribute {
	return []checkAttribute{
		{name: "path", set: text(func(s *probe.Settings) *string { return &s.Path }, probe.CheckPath)},
		{name: "method", set: func(s *probe.Settings, v cty.Value) error {
			method, err := textOf(v)
			if err != nil {
				return err
			}
			s.Method = strings.ToUpper(method)
			return probe.CheckMethod(s.Method)
		}},
		{name: "host", set: text(func(s *probe.Settings) *string { return &s.Host }, probe.CheckHost)},
		{name: "expected_statuses", set: setStatuses},
		{name: "header", set: setHeaders},
		{name: "http2", set: func(s *probe.Settings, v cty.Value) (err error) {
			s.HTTP2, err = boolOf(v)
			return err
		}},
		{name: "body", set: payload(func(s *probe.Settings) *probe.Payload { return &s.Body })},
		{name: "receive", set: setReceive},
	}
}

func tcpAttributes() []checkAttribute {
	return []checkAttribute{
		{name: "send", set: payload(func(s *probe.Settings) *probe.Payload { return &s.Send })},
		{name: "receive", set: setReceive},
	}
}

func grpcAttributes() []checkAttribute {
	return []checkAttribute{
		{name: "service", set: text(func(s *probe.Settings) *string { return &s.GRPCService }, probe.CheckGRPCService)},
	}
}

// tlsAttributes are those of the tls block of a kind.
func tlsAttributes() []checkAttribute {
	return []checkAttribute{
		{name: "server_name", set: text(func(s *probe.Settings) *string { return &s.TLSServerName }, probe.CheckServerName)},
		{name: "ca_file", set: text(func(s *probe.Settings) *string { return &s.TLSCAFile }, checkFile)},
		{name: "cert_file", set: text(func(s *probe.Settings) *string { return &s.TLSCertFile }, checkFile)},
		{name: "key_file", set: text(func(s *probe.Settings) *string { return &s.TLSKeyFile }, checkFile)},
		{name: "skip_verify", set: func(s *probe.Settings, v cty.Value) error {
			skip, err := boolOf(v)
			s.TLSSkipVerify = probe.Not
			if skip {
				s.TLSSkipVerify = probe.On
			}
			return err
		}},
	}
}

// readKind reads a kind block with its tls block, if any.
func (l *loader) readKind(kind *hcl.Block, path string, c *probe.Check) {
	c.Settings.Kind = probe.Kind(kind.Type)
	c.Places["kind"] = position(kind.DefRange)
	content := l.readSettings(kind.Body, path+".", kindAttributes(kind.Type), []string{"tls"}, c)
	for i, b := range content.Blocks {
		if i > 0 {
			l.diags = append(l.diags, duplicate("tls block", content.Blocks[0].DefRange, b.DefRange))
		}
		c.Settings.TLS = probe.On
		c.Places[kind.Type+".tls"] = position(b.DefRange)
		l.readSettings(b.Body, path+".tls.", tlsAttributes(), nil, c)
	}
}

func payload(field func(*probe.Settings) *probe.Payload) func(*probe.Settings, cty.Value) error {
	return func(s *probe.Settings, v cty.Value) (err error) {
		*field(s), err = payloadOf(v)
		return err
	}
}

func payloadOf(v cty.Value) (probe.Payload, error) {
	text, err := textOf(v)
	if err != nil {
		return "", err
	}
	return probe.ParsePayload(text)
}

func setReceive(s *probe.Settings, v cty.Value) error {
	elements, err := elementsOf(v)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return fmt.Errorf("an empty list is not allowed: at least one payload, or leave it out")
	}
	for _, e := range elements {
		p, err := payloadOf(e)
		if err != nil {
			return fmt.Errorf("in the list: %w", err)
		}
		s.Receive = append(s.Receive, p)
	}
	return nil
}

// setHeaders reads a map of names to lists of values.
func setHeaders(s *probe.Settings, v cty.Value) error {
	const form = `a map of names to lists, such as { "X-Probe" = ["hds"] }`
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return fmt.Errorf("%s is not allowed: %s", kindOf(v), form)
	}
	lists := v.AsValueMap()
	if len(lists) == 0 {
		return nil
	}
	headers := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		list := lists[name]
		if _, err := elementsOf(list); err != nil {
			return fmt.Errorf("header %.80q: %s is not allowed: %s", name, kindOf(list), form)
		}
		values, err := listOf(list)
		if err != nil {
			return fmt.Errorf("header %.80q: %w", name, err)
		}
		headers[name] = values
	}
	s.Headers = headers
	return probe.CheckHeaders(headers)
}
