package main

import (
	"reflect"

	"github.com/consul-hds/consul-hds/config"
)

// changedFixed lists the keys that differ between two configurations and that a
// running daemon cannot take over.
func changedFixed(running, loaded *config.Config) []string {
	fixed := []struct {
		key         string
		old, loaded any
	}{
		{"data_dir", running.DataDir, loaded.DataDir},
		{"log_json", running.LogJSON, loaded.LogJSON},
		{"consul", running.Consul, loaded.Consul},
		{"hds.listen", running.HDS.Listen, loaded.HDS.Listen},
		{"hds.socket_mode", running.HDS.SocketMode, loaded.HDS.SocketMode},
		{"hds.socket_group", running.HDS.SocketGroup, loaded.HDS.SocketGroup},
		{"hds.max_streams", running.HDS.MaxStreams, loaded.HDS.MaxStreams},
		{"hds.auth", running.HDS.Auth, loaded.HDS.Auth},
		{"hds.tls", running.HDS.TLS, loaded.HDS.TLS},
		{"checks.on_shutdown", running.Checks.OnShutdown, loaded.Checks.OnShutdown},
		{"admin", running.Admin, loaded.Admin},
		{"telemetry", running.Telemetry, loaded.Telemetry},
	}
	var keys []string
	for _, f := range fixed {
		if !reflect.DeepEqual(f.old, f.loaded) {
			keys = append(keys, f.key)
		}
	}
	return keys
}
