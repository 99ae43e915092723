package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// neverRequired are modules whose place is test/tools or test/nomad: they would
// put their dependencies, hundreds of them, upon everybody who builds the daemon.
var neverRequired = []string{"github.com/hashicorp/consul", "github.com/hashicorp/nomad", "github.com/hashicorp/nomad/api"}

// tidied are the folders of the modules that have to be tidy. test/tools is a
// list of tools, and not one to be tidied: that would fetch all that they need.
var tidied = []string{".", "test/nomad", "test/extras", "release"}

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
	for _, dir := range tidied {
		untidy, err := untidiness(dir)
		if err != nil {
			return faults, err
		}
		faults = append(faults, untidy...)
	}
	return faults, nil
}

// untidiness is what go mod tidy would change in the module of a folder.
func untidiness(dir string) ([]string, error) {
	cmd := exec.Command("go", "mod", "tidy", "-diff")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err == nil {
		return nil, nil
	}
	diff := strings.TrimSpace(string(out))
	if diff == "" {
		return nil, fmt.Errorf("go mod tidy in %s: %w", dir, withStderr(err))
	}
	lines := strings.Split(diff, "\n")
	return append([]string{"go mod tidy in " + dir + " would change, among others:"}, lines[:min(len(lines), diffLines)]...), nil
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
