package config

import (
	"bytes"
	"regexp"

	"github.com/hashicorp/hcl/v2"
)

// tokenText finds the value of a token in HCL or JSON that cannot be parsed, or
// of a key that was meant to be one, such as tokn, Token, acl_token, secret, or of
// a header that carries one: a closed or open string, a heredoc, or the rest of the line.
var tokenText = regexp.MustCompile(`(?i:\b\w*(?:tok[a-z]*|secret\w*|passw\w*|authorization|cookie))"?\s*[:=]\s*("(?:[^"\\\n]|\\.)*"?|<<-?\w+\r?\n(?s:.*)|[^\s"].*)`)

// userText finds the user and password of a URL. An address with them is refused,
// and the line that is shown with the fault must not tell them.
var userText = regexp.MustCompile(`://([^\s/"]+)@`)

// masked copies files with the values of tokens made unreadable, byte by byte,
// so that the places that diagnostics point at stay where they are. The lines
// that a diagnostic shows may hold more than the fault.
func masked(files map[string]*hcl.File, secrets []hcl.Range) map[string]*hcl.File {
	out := map[string]*hcl.File{}
	for name, file := range files {
		f := *file
		f.Bytes = bytes.Clone(file.Bytes)
		for _, secret := range []*regexp.Regexp{tokenText, userText} {
			for _, at := range secret.FindAllSubmatchIndex(f.Bytes, -1) {
				mask(f.Bytes[at[2]:at[3]])
			}
		}
		out[name] = &f
	}
	for _, r := range secrets {
		if f, ok := out[r.Filename]; ok && r.CanSliceBytes(f.Bytes) {
			mask(r.SliceBytes(f.Bytes))
		}
	}
	return out
}

func mask(text []byte) {
	for i, b := range text {
		if b != '"' && b != '\r' && b != '\n' {
			text[i] = '*'
		}
	}
}
