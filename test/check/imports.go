package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

const module = "github.com/consul-hds/consul-hds"

// anything, as the rule of a package, lets it import every package of ours.
const anything = "*"

// rules say which packages of ours a package, and those below it, may import.
// Data goes round the ring by values: protocol, identity and domain do not know
// one another.
var rules = map[string][]string{
	"cmd":              {"bridge", "bootstrap", "config"},
	"bootstrap":        {"bridge/probe"},
	"config":           {"bridge/probe"},
	"bridge":           {"bridge/catalog", "bridge/probe", "bridge/hds", "bridge/health", "bridge/checks", "bridge/admin", "bridge/telemetry", "bridge/lookup", "bridge/logging", "bridge/agenda"},
	"bridge/catalog":   {"bridge/logging"},
	"bridge/probe":     {"bridge/catalog"},
	"bridge/hds":       {"bridge/probe", "bridge/catalog", "bridge/logging"},
	"bridge/health":    {},
	"bridge/agenda":    {},
	"bridge/logging":   {},
	"bridge/lookup":    {},
	"bridge/checks":    {"bridge/health", "bridge/probe", "bridge/catalog", "bridge/logging", "bridge/agenda"},
	"bridge/admin":     {},
	"bridge/telemetry": {},
	"test":             {anything},
	"nomad":            {"test"},
	"examples":         {"test"},
}

// standardOnly are the packages whose code, tests apart, imports nothing but
// the standard library.
var standardOnly = []string{"bridge/health"}

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func checkImports() ([]string, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", withStderr(err))
	}
	var faults []string
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return faults, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		faults = append(faults, importFaults(p)...)
	}
}

// importFaults are the imports of a package that the rules forbid. Its tests
// may import test, and the helpers for tests, too.
func importFaults(p pkg) []string {
	name, _ := ours(p.ImportPath)
	own, known := owner(name)
	if !known {
		return []string{name + ": no rule says what it may import (test/check/imports.go)"}
	}
	forTests := own == "test" || isTestHelper(name)
	var faults []string
	for _, imp := range p.Imports {
		if why := forbidden(own, imp, forTests); why != "" {
			faults = append(faults, fmt.Sprintf("%s imports %s: %s", name, imp, why))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if why := forbidden(own, imp, true); why != "" {
			faults = append(faults, fmt.Sprintf("a test of %s imports %s: %s", name, imp, why))
		}
	}
	return faults
}

// forbidden says why the packages of a rule must not import another; it is
// empty when they may.
func forbidden(own, imp string, inTest bool) string {
	name, isOurs := ours(imp)
	if !isOurs {
		first, _, _ := strings.Cut(imp, "/")
		if !inTest && slices.Contains(standardOnly, own) && strings.Contains(first, ".") {
			return "only the standard library is allowed"
		}
		return ""
	}
	if isTestHelper(name) && !inTest {
		return "it is for tests"
	}
	target, _ := owner(name)
	allowed := rules[own]
	if target == own || slices.Contains(allowed, target) || slices.Contains(allowed, anything) {
		return ""
	}
	if inTest && target == "test" {
		return ""
	}
	return "the rules do not allow it (test/check/imports.go)"
}

// ours is the path of a package within the module.
func ours(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// owner is the package, it or one above it, that has a rule.
func owner(name string) (string, bool) {
	for ; name != "."; name = path.Dir(name) {
		if _, ok := rules[name]; ok {
			return name, true
		}
	}
	return "", false
}

// isTestHelper says whether a package is for tests only, as catalogtest is.
func isTestHelper(name string) bool {
	return strings.HasSuffix(name, "test") && name != "test"
}

// withStderr adds what a command printed to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
