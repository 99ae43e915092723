package logging

import "fmt"

// Known leaves out of the keys and values of a line those whose value is empty:
// what is not known is not there.
func Known(pairs ...any) []any {
	var out []any
	for i := 0; i+1 < len(pairs); i += 2 {
		if fmt.Sprint(pairs[i+1]) != "" {
			out = append(out, pairs[i], pairs[i+1])
		}
	}
	return out
}
