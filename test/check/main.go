// Command check proves the house rules that compilers and linters do not: which
// package may import which, that the modules are tidy and the product's is free
// of the Consul and Nomad modules, and that all HCL is formatted. It prints every
// fault; with any, it ends with exit code 1.
package main

import (
	"fmt"
	"os"

	"github.com/consul-hds/consul-hds/test/lab"
)

func main() {
	root, err := lab.RepoRoot()
	if err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
	failed := false
	for _, c := range []struct {
		name string
		run  func() ([]string, error)
	}{
		{"import rules", checkImports},
		{"tidy modules", checkModule},
		{"formatted HCL", checkHCL},
	} {
		faults, err := c.run()
		if err != nil {
			faults = append(faults, err.Error())
		}
		verdict := "ok"
		if len(faults) > 0 {
			failed, verdict = true, "FAILED"
		}
		fmt.Printf("%-14s %s\n", c.name, verdict)
		for _, f := range faults {
			fmt.Println("  " + f)
		}
	}
	if failed {
		os.Exit(1)
	}
}
