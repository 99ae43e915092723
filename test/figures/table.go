package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is printed with right-aligned columns, below a title, the command that
// makes it and the versions it holds for.
type table struct {
	title   string
	columns []string
	rows    [][]string
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// print prints the table of a measurement that was made on a stage.
func (f *figures) print(ctx context.Context, s *stage, name string, t table) error {
	versions, err := s.versions(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(f.out, "\n%s\ngo run ./test/figures -only %s\n%s\n\n", t.title, name, versions)
	return t.write(f.out)
}

func (t *table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, row := range slices.Concat([][]string{t.columns}, t.rows) {
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	return w.Flush()
}

// median is the middle one of some durations, in ms.
func median(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2].Round(time.Millisecond)
}

// longest is the longest of some durations, in ms.
func longest(d []time.Duration) time.Duration { return slices.Max(d).Round(time.Millisecond) }
