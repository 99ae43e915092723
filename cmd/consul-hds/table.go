package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// paint is how a cell is coloured on a terminal: an SGR code of ECMA-48.
type paint string

const (
	plain  paint = ""
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	bold   paint = "1"
)

// cell is a text in a table.
type cell struct {
	text  string
	paint paint
}

// row makes plain cells.
func row(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, t := range texts {
		cells[i] = cell{text: t}
	}
	return cells
}

// writeTable writes rows with aligned columns.
func writeTable(w io.Writer, rows [][]cell, colour bool) {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(c.text)))
		}
	}
	for _, r := range rows {
		line := ""
		for i, c := range r {
			line += c.painted(colour)
			if i < len(r)-1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(clean(c.text))+2)
			}
		}
		fmt.Fprintln(w, line)
	}
}

func (c cell) painted(colour bool) string {
	text := clean(c.text)
	if !colour || c.paint == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c.paint) + "m" + text + "\x1b[0m"
}

// clean takes out of a text what would move the cursor or turn the direction of
// what follows: service ids may hold anything.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// coloured says whether colours are wanted: on a terminal, unless NO_COLOR is
// set (https://no-color.org) or the terminal has none.
func coloured(env environment) bool {
	return terminal(env.stdout) && env.getenv("NO_COLOR") == "" && env.getenv("TERM") != "dumb"
}

// terminal says whether something is a terminal.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
