package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/config"
)

// After a reload the old value of what cannot be taken over is in force, and the
// new one of all else.
func TestInForce(t *testing.T) {
	running, loaded := config.Default(), config.Default()
	assert.Empty(t, changedFixed(running, loaded))
	loaded.DataDir, loaded.Admin.Listen, loaded.HDS.Listen = "/new", "127.0.0.1:1", []string{"127.0.0.1:2"}
	loaded.LogLevel, loaded.HDS.NodeIDs = "trace", []string{"new"}
	assert.Equal(t, []string{"data_dir", "hds.listen", "admin"}, changedFixed(running, loaded))
	got := inForce(running, loaded)
	assert.Empty(t, changedFixed(running, got))
	assert.Equal(t, running.HDS.Listen, got.HDS.Listen)
	assert.Equal(t, "trace", got.LogLevel)
	assert.Equal(t, []string{"new"}, got.HDS.NodeIDs)
	assert.Equal(t, "/new", loaded.DataDir, "what was loaded is left as it was")
}
