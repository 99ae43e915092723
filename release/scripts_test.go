package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runScript runs a script of the packages, with programs of systemd that note how
// they are called and end with the given exit codes. It gives the notes.
func runScript(t *testing.T, name, argument string, exit map[string]int) (string, error) {
	t.Helper()
	bin := t.TempDir()
	notes := filepath.Join(t.TempDir(), "notes")
	for program, code := range exit {
		text := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s\nexit %d\n", program, notes, code)
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte(text), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join("package", name), argument)
	cmd.Env = []string{"PATH=" + bin}
	runErr := cmd.Run()
	called, err := os.ReadFile(notes)
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return strings.TrimSpace(string(called)), runErr
}

func TestTheScripts(t *testing.T) {
	const disable = "systemctl --no-reload disable --now consul-hds.service"
	for _, c := range []struct{ script, argument, calls string }{
		{"postinstall.sh", "configure", "systemd-sysusers consul-hds.conf\nsystemctl daemon-reload"}, // dpkg
		{"postinstall.sh", "1", "systemd-sysusers consul-hds.conf\nsystemctl daemon-reload"},         // rpm
		{"preremove.sh", "remove", disable},
		{"preremove.sh", "0", disable},
		{"preremove.sh", "upgrade", ""},
		{"preremove.sh", "1", ""},
		{"postremove.sh", "remove", "systemctl daemon-reload"},
		{"postremove.sh", "0", "systemctl daemon-reload"},
	} {
		t.Run(c.script+" "+c.argument, func(t *testing.T) {
			for _, code := range []int{0, 1} { // 1 where systemd is installed but does not run
				calls, err := runScript(t, c.script, c.argument, map[string]int{"systemd-sysusers": 0, "systemctl": code})
				require.NoError(t, err)
				assert.Equal(t, c.calls, calls)
			}
			_, err := runScript(t, c.script, c.argument, map[string]int{"systemd-sysusers": 0})
			require.NoError(t, err, "without systemctl")
		})
	}
	_, err := runScript(t, "postinstall.sh", "configure", map[string]int{"systemd-sysusers": 1, "systemctl": 0})
	assert.Error(t, err, "without its user the daemon cannot start")
}
