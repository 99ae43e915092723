package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker in releases: -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

// commitDigits is how much of a commit's name is shown: what the Makefile gives to
// the linker, and what Go has in the versions of untagged commits.
const commitDigits = 12

const versionHelp = `
Usage: consul-hds version

  Prints the version, the commit that it was built from, and the Go release.
`

// runVersion prints the version.
func runVersion(args []string, env environment) int {
	fs := newFlags("version")
	if code, ok := parseFlags(fs, args, env, versionHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintln(env.stdout, versionText(info))
	return exitOK
}

// versionName is the version alone. What the linker did not set comes from the
// build information, which go install and builds in a checkout fill in; info
// may be nil.
func versionName(info *debug.BuildInfo) string {
	switch {
	case version != "":
		return version
	case info != nil && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	default:
		return "dev"
	}
}

// versionText names the version, the commit and the Go release.
func versionText(info *debug.BuildInfo) string {
	from, modified := commit, ""
	if info != nil {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && from == "":
				from = s.Value[:min(len(s.Value), commitDigits)]
			case s.Key == "vcs.modified" && s.Value == "true" && commit == "":
				modified = ", modified"
			}
		}
	}
	text := "consul-hds " + versionName(info)
	if from != "" {
		text += " (" + from + modified + ")"
	}
	return text + " " + runtime.Version()
}
