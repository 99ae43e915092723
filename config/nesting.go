package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxNesting is far above what the schema needs and far below what the
// recursive parsers survive: some ten thousands end the process, which
// recover cannot prevent.
const maxNesting = 100

// nestsHCL says whether a file could overflow the parser's stack: by brackets
// or by operators, of which no configuration needs any.
func nestsHCL(src []byte) bool {
	closes := map[hclsyntax.TokenType]hclsyntax.TokenType{
		hclsyntax.TokenOParen:         hclsyntax.TokenCParen,
		hclsyntax.TokenOBrace:         hclsyntax.TokenCBrace,
		hclsyntax.TokenOBrack:         hclsyntax.TokenCBrack,
		hclsyntax.TokenTemplateInterp: hclsyntax.TokenTemplateSeqEnd,
	}
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var open []hclsyntax.TokenType
	operators := 0
	for _, t := range tokens {
		if c, ok := closes[t.Type]; ok {
			open = append(open, c)
		} else if n := len(open); n > 0 && open[n-1] == t.Type {
			open = open[:n-1]
		} else if isOperator(t.Type) {
			operators++
		}
		if len(open)+operators > maxNesting {
			return true
		}
	}
	return false
}

func isOperator(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenMinus, hclsyntax.TokenBang, hclsyntax.TokenQuestion,
		hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenAnd, hclsyntax.TokenOr,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenTemplateControl: // its blocks nest without brackets
		return true
	}
	return false
}

// nestsJSON is nestsHCL for JSON, whose only nesting is that of brackets.
func nestsJSON(src []byte) bool {
	var open []byte
	text := false
	for i := 0; i < len(src); i++ {
		n := len(open)
		switch c := src[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			open = append(open, c+2) // the closing bracket in ASCII
		case n > 0 && open[n-1] == c:
			open = open[:n-1]
		}
		if len(open) > maxNesting {
			return true
		}
	}
	return false
}
