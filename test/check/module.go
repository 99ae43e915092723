package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// neverRequired are modules whose place is test/tools: they would put their
// hundreds of dependencies upon everybody who builds the daemon.
var neverRequired = []string{"github.com/hashicorp/consul", "github.com/hashicorp/nomad"}

// diffLines is how much of a diff is worth printing.
const diffLines = 30

func checkModule() ([]string, error) {
	b, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	faults, err := moduleFaults(b)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "mod", "tidy", "-diff").Output()
	if err == nil {
		return faults, nil
	}
	diff := strings.TrimSpace(string(out))
	if diff == "" {
		return faults, fmt.Errorf("go mod tidy: %w", withStderr(err))
	}
	lines := strings.Split(diff, "\n")
	faults = append(faults, "go mod tidy would change, among others:")
	return append(faults, lines[:min(len(lines), diffLines)]...), nil
}

func moduleFaults(gomod []byte) ([]string, error) {
	mod, err := modfile.Parse("go.mod", gomod, nil)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, r := range mod.Require {
		if slices.Contains(neverRequired, r.Mod.Path) {
			faults = append(faults, fmt.Sprintf("go.mod must not require %s", r.Mod.Path))
		}
	}
	if len(mod.Replace) > 0 {
		faults = append(faults, "go.mod must not replace modules: go install would refuse it")
	}
	return faults, nil
}
