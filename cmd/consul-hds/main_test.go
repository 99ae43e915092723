package main

import (
	"bytes"
	"errors"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/config"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"consul-hds": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exec-code": execCode},
	})
}

// execCode is exec with the exit code that is wanted as its first argument.
func execCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exec-code code program [argument...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// TestEveryCommandHasHelp asks each command for help, in every way.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range commands() {
		assert.NotEmpty(t, c.synopsis)
		for _, args := range [][]string{{"help", c.name}, {c.name, "-h"}, {c.name, "-help"}, {c.name, "--help"}} {
			var out, err bytes.Buffer
			code := run(args, environment{stdin: strings.NewReader(""), stdout: &out, stderr: &err})
			assert.Equal(t, exitOK, code, args)
			assert.True(t, strings.HasPrefix(out.String(), "Usage: consul-hds "+c.name), args)
			assert.Empty(t, err.String(), args)
		}
	}
}

// TestEveryAttributeHasAFlag gives every flag once and finds it in the options.
func TestEveryAttributeHasAFlag(t *testing.T) {
	fs := newFlags("test")
	o := configFlags(fs, environment{environ: []string{"A=1"}})
	var args []string
	want := map[string]string{}
	for _, a := range config.Attributes() {
		if a.Flag != "" {
			args = append(args, "-"+a.Flag+"=x")
			want[a.Path] = "x"
		}
	}
	args = append(args, "-config-file", "a", "-config-dir", "b", "-config-file", "c", "-log-json")
	want["log_json"] = "true"
	assert.NoError(t, fs.Parse(args))
	assert.Equal(t, &config.Options{Paths: []string{"a", "b", "c"}, Environ: []string{"A=1"}, Flags: want}, o)
}

func TestVersionText(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}},
	}
	assert.Contains(t, versionText(info), "consul-hds v1.2.3 (0123456789ab, modified) go")
	assert.Contains(t, versionText(nil), "consul-hds dev go")
	version, commit = "1.0.0", "def"
	defer func() { version, commit = "", "" }()
	assert.Contains(t, versionText(info), "consul-hds 1.0.0 (def) go")
}

func TestSumSpeaksOfOneCheck(t *testing.T) {
	assert.Equal(t, "1 check removed.", sum(1, false))
	assert.Equal(t, "2 checks would be removed.", sum(2, true))
	assert.Equal(t, "0 checks removed.", sum(0, false))
}

// TestEveryAttributeIsExplained runs validate -explain, as people do.
func TestEveryAttributeIsExplained(t *testing.T) {
	var out, err bytes.Buffer
	assert.Equal(t, exitOK, run([]string{"validate", "-explain"}, environment{stdout: &out, stderr: &err}))
	for _, a := range config.Attributes() {
		assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(a.Path)+` +\S.* default$`, out.String())
	}
	assert.Empty(t, err.String())
}

func TestGetenv(t *testing.T) {
	env := environment{environ: []string{"A=1", "B", "A=2=3"}}
	assert.Equal(t, "2=3", env.getenv("A"))
	assert.Empty(t, env.getenv("B"))
	assert.Empty(t, env.getenv("C"))
}

func TestTheDaemonKeepsToOneCoreUnlessToldOtherwise(t *testing.T) {
	assert.Equal(t, 1, cores(environment{}))
	for _, none := range []string{"", "0", "-1", "max", " 2", "4294967296"} {
		assert.Equal(t, 1, cores(environment{environ: []string{"GOMAXPROCS=" + none}}), none)
	}
	assert.Zero(t, cores(environment{environ: []string{"GOMAXPROCS=4"}}), "what the Go runtime made of it stands")
}
