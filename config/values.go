package config

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// The functions below read values of files strictly: a number in quotes or a
// quoted true is a mistake worth telling, not one to be guessed right. All of
// the value is known.

// unset says whether a value is as good as absent. Templates that render an
// optional value leave an empty string.
func unset(v cty.Value) bool {
	return v.IsNull() || v.Type() == cty.String && v.AsString() == ""
}

func textOf(v cty.Value) (string, error) {
	if v.Type() != cty.String || v.IsNull() {
		return "", fmt.Errorf("%s is not allowed: a string in quotes", kindOf(v))
	}
	return v.AsString(), nil
}

func boolOf(v cty.Value) (bool, error) {
	if v.Type() != cty.Bool || v.IsNull() {
		return false, fmt.Errorf("%s is not allowed: true or false, without quotes", kindOf(v))
	}
	return v.True(), nil
}

func intOf(v cty.Value) (int, error) {
	if v.Type() != cty.Number || v.IsNull() {
		return 0, fmt.Errorf("%s is not allowed: a whole number, without quotes", kindOf(v))
	}
	n, accuracy := v.AsBigFloat().Int64()
	if accuracy != big.Exact || int64(int(n)) != n {
		return 0, fmt.Errorf("%.20s is not allowed: a whole number", v.AsBigFloat().Text('g', 10))
	}
	return int(n), nil
}

func durationOf(v cty.Value) (time.Duration, error) {
	if v.Type() != cty.String || v.IsNull() {
		return 0, fmt.Errorf("%s is not a duration: %s", kindOf(v), durationForm)
	}
	return parseDuration(v.AsString())
}

func listOf(v cty.Value) ([]string, error) {
	elements, err := elementsOf(v)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(elements))
	for _, e := range elements {
		s, err := textOf(e)
		if err != nil {
			return nil, fmt.Errorf("in the list: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

func elementsOf(v cty.Value) ([]cty.Value, error) {
	t := v.Type()
	if !t.IsTupleType() && !t.IsListType() && !t.IsSetType() || v.IsNull() {
		return nil, fmt.Errorf(`%s is not allowed: a list, such as ["one", "two"]`, kindOf(v))
	}
	return v.AsValueSlice(), nil
}

// kindOf names what was found. It shows no value, which may be a secret.
func kindOf(v cty.Value) string {
	switch t := v.Type(); {
	case v.IsNull():
		return "null"
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "a bool"
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		return "a list"
	case t.IsObjectType() || t.IsMapType():
		return "a map"
	default:
		return "a value of this kind"
	}
}

const durationForm = `a string with a number and a unit, such as "500ms", "1s" or "1m30s"`

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || s == "0" {
		return 0, fmt.Errorf("%.80q is not a duration: %s", s, durationForm)
	}
	return d, nil
}

// formatDuration writes 1m for 1m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
