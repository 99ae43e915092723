package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/bridge"
)

func someStatus() bridge.Status {
	s := bridge.Status{Version: "1.2.3", Node: "n1"}
	s.Consul.Synced, s.Consul.Address = true, "127.0.0.1:8500"
	s.Observers = []bridge.StatusObserver{{NodeID: "node-envoy", Kind: "node", Envoy: "1.40.0", Applied: true, Probes: 2, Peer: "unix"}}
	s.Checks = []bridge.StatusCheck{
		{CheckID: "hds:web-1", Service: "web", ServiceID: "web-1", Phase: "reported", Status: "passing", Output: "healthy"},
		{CheckID: "hds:db-1", Service: "db", ServiceID: "db-1", Phase: "reported", Status: "critical", Output: "unhealthy"},
		{CheckID: "hds:new-1", Service: "new", ServiceID: "new-1", Phase: "pending"},
	}
	return s
}

func TestStatusFilters(t *testing.T) {
	shown := func(f bridge.StatusFilter) (ids []string) {
		s := someStatus()
		s.Problems = []bridge.StatusProblem{{ServiceID: "web-1", Source: "meta"}, {ServiceID: "db-2", Source: "meta"}, {Source: "consul"}}
		for _, c := range f.Checks(s) {
			ids = append(ids, c.ServiceID)
		}
		for _, p := range f.Problems(s) {
			ids = append(ids, "!"+p.ServiceID)
		}
		return ids
	}
	assert.Equal(t, []string{"web-1", "db-1", "new-1", "!web-1", "!db-2", "!"}, shown(bridge.StatusFilter{}))
	assert.Equal(t, []string{"web-1", "!web-1"}, shown(bridge.StatusFilter{Service: "web"}))
	assert.Equal(t, []string{"db-1", "!db-2"}, shown(bridge.StatusFilter{Service: "db*"}))
	assert.Equal(t, []string{"db-1"}, shown(bridge.StatusFilter{Service: "db-1"}))
	assert.Equal(t, []string{"db-1", "!web-1", "!db-2", "!"}, shown(bridge.StatusFilter{Status: "critical"}))
	assert.Equal(t, []string{"new-1", "!web-1", "!db-2", "!"}, shown(bridge.StatusFilter{Status: "none"}))
}

func TestStatusIsSound(t *testing.T) {
	assert.True(t, sound(someStatus()), "critical is what it should be when the app fails")
	for name, spoil := range map[string]func(*bridge.Status){
		"not synced":  func(s *bridge.Status) { s.Consul.Synced = false },
		"not applied": func(s *bridge.Status) { s.Observers[0].Applied = false },
		"stale":       func(s *bridge.Status) { s.Checks[0].Phase = "stale" },
		"problem":     func(s *bridge.Status) { s.Problems = []bridge.StatusProblem{{}} },
	} {
		s := someStatus()
		spoil(&s)
		assert.False(t, sound(s), name)
	}
}

func TestTheStatusTable(t *testing.T) {
	s := someStatus()
	s.Checks[1].Maintenance, s.Checks[1].Mode = "node", "shadow"
	s.Problems = []bridge.StatusProblem{{ServiceID: "a\x1b[2J\nb\u202ec\u2066", Source: "meta", Message: "é"}}
	s.Refused = []bridge.StatusRefused{{Reason: "token", Count: 12, Last: time.Unix(0, 0), Peer: "unix, pid 7", Error: "no token\n"}}
	var b strings.Builder
	writeStatus(&b, s, false)
	assert.Equal(t, `consul-hds 1.2.3 on node "n1", Consul at 127.0.0.1:8500 synced

Observers (1)
NODE ID     KIND  ENVOY   PROBES  APPLIED  PEER
node-envoy  node  1.40.0  2       true     unix

Refused in the last 5 minutes (1)
REASON  COUNT  LAST                  PEER         ERROR
token   12     1970-01-01T00:00:00Z  unix, pid 7  no token�

Checks (3)
SERVICE  CHECK ID   PHASE             STATUS                         OUTPUT
web      hds:web-1  reported          passing                        healthy
db       hds:db-1   reported, shadow  critical, node in maintenance  unhealthy
new      hds:new-1  pending           none                           

Problems (1)
a�[2J�b�c�  meta  é
`, b.String())

	b.Reset()
	writeStatus(&b, s, true)
	assert.Contains(t, b.String(), "\x1b[32mpassing\x1b[0m")
	assert.Contains(t, b.String(), "\x1b[31mcritical, node in maintenance\x1b[0m")
	assert.NotContains(t, b.String(), "\x1b[2J")
}

func TestColoursAreForTerminals(t *testing.T) {
	assert.False(t, coloured(environment{stdout: &strings.Builder{}}))
}
