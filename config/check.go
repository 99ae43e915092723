package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// checkAttribute is an attribute of a check block or of its kind.
type checkAttribute struct {
	name string
	// set reads a value that is not unset.
	set func(*probe.Settings, cty.Value) error
}

// checkAttributes are those of defaults, for one check.
func checkAttributes() []checkAttribute {
	return []checkAttribute{
		{name: "interval", set: duration(func(s *probe.Settings) *time.Duration { return &s.Interval })},
		{name: "timeout", set: duration(func(s *probe.Settings) *time.Duration { return &s.Timeout })},
		{name: "healthy_threshold", set: number(func(s *probe.Settings) *int { return &s.HealthyThreshold }, probe.CheckThreshold)},
		{name: "unhealthy_threshold", set: number(func(s *probe.Settings) *int { return &s.UnhealthyThreshold }, probe.CheckThreshold)},
		{name: "observer", set: func(s *probe.Settings, v cty.Value) (err error) {
			word, err := wordOf(v, observers)
			s.Observer = probe.ObserverPolicy(word)
			return err
		}},
		{name: "mode", set: func(s *probe.Settings, v cty.Value) error {
			word, err := wordOf(v, modes)
			s.Mode = probe.Mode(word)
			return err
		}},
		{name: "ca_file", set: text(func(s *probe.Settings) *string { return &s.TLSCAFile }, checkFile)},
	}
}

func duration(field func(*probe.Settings) *time.Duration) func(*probe.Settings, cty.Value) error {
	return func(s *probe.Settings, v cty.Value) (err error) {
		if *field(s), err = durationOf(v); err != nil {
			return err
		}
		return probe.CheckDuration(*field(s))
	}
}

func number(field func(*probe.Settings) *int, check func(int) error) func(*probe.Settings, cty.Value) error {
	return func(s *probe.Settings, v cty.Value) (err error) {
		if *field(s), err = intOf(v); err != nil {
			return err
		}
		return check(*field(s))
	}
}

func text(field func(*probe.Settings) *string, check func(string) error) func(*probe.Settings, cty.Value) error {
	return func(s *probe.Settings, v cty.Value) (err error) {
		if *field(s), err = textOf(v); err != nil {
			return err
		}
		return check(*field(s))
	}
}

func wordOf(v cty.Value, words []string) (string, error) {
	s, err := textOf(v)
	if err != nil {
		return "", err
	}
	if word := strings.ToLower(s); slices.Contains(words, word) {
		return word, nil
	}
	return "", fmt.Errorf("%.80q is not allowed: one of %s", s, strings.Join(words, ", "))
}

// setStatuses reads a list of codes, as numbers or strings, and ranges.
func setStatuses(s *probe.Settings, v cty.Value) error {
	elements, err := elementsOf(v)
	if err != nil {
		return fmt.Errorf(`%s is not allowed: a list, such as ["200-299", "304"]`, kindOf(v))
	}
	if len(elements) == 0 {
		return fmt.Errorf("an empty list is not allowed: at least one status")
	}
	var list []string
	for _, e := range elements {
		if n, err := intOf(e); err == nil {
			list = append(list, fmt.Sprint(n))
			continue
		}
		code, err := textOf(e)
		if err != nil {
			return fmt.Errorf("in the list: %w", err)
		}
		list = append(list, code)
	}
	s.ExpectedStatuses, err = probe.ParseStatuses(strings.Join(list, ","))
	return err
}
