package lab

import (
	"flag"
	"fmt"
	"os"
)

// ParseFlags parses the flags of a command that takes nothing else. What follows
// them ends it with exit code 2, as an unknown flag does: `-list consul` is not to
// be taken for `-list -only consul`.
func ParseFlags() {
	flag.Parse()
	if err := onlyFlags(flag.Args()); err != nil {
		fmt.Fprintln(flag.CommandLine.Output(), err)
		flag.Usage()
		os.Exit(2)
	}
}

func onlyFlags(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q: there are only flags", rest[0])
}
