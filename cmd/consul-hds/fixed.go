package main

import (
	"reflect"

	"github.com/consul-hds/consul-hds/config"
)

// fixedPart is a part of a configuration that a running daemon cannot change.
type fixedPart struct {
	key string
	// value points at it.
	value any
}

func fixedParts(c *config.Config) []fixedPart {
	return []fixedPart{
		{"data_dir", &c.DataDir},
		{"log_json", &c.LogJSON},
		{"consul", &c.Consul},
		{"hds.listen", &c.HDS.Listen},
		{"hds.socket_mode", &c.HDS.SocketMode},
		{"hds.socket_group", &c.HDS.SocketGroup},
		{"hds.max_streams", &c.HDS.MaxStreams},
		{"hds.auth", &c.HDS.Auth},
		{"hds.tls", &c.HDS.TLS},
		{"checks.on_shutdown", &c.Checks.OnShutdown},
		{"admin", &c.Admin},
		{"telemetry", &c.Telemetry},
	}
}

// changedFixed lists the keys that differ between two configurations and that a
// running daemon cannot take over.
func changedFixed(running, loaded *config.Config) []string {
	was := fixedParts(running)
	var keys []string
	for i, part := range fixedParts(loaded) {
		if !reflect.DeepEqual(was[i].value, part.value) {
			keys = append(keys, part.key)
		}
	}
	return keys
}

// inForce is what a daemon has after it has loaded another configuration: that
// one, but for what it cannot take over.
func inForce(running, loaded *config.Config) *config.Config {
	out := *loaded
	was := fixedParts(running)
	for i, part := range fixedParts(&out) {
		reflect.ValueOf(part.value).Elem().Set(reflect.ValueOf(was[i].value).Elem())
	}
	return &out
}
