package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile are registrations that would crash, wedge or mislead an Envoy
// (facts/envoy-hds.md 0, 0b) or the agent's API (facts/consul.md 0.12), each
// with what its problem has to say.
func hostile() map[string]*api.AgentServiceRegistration {
	out := map[string]*api.AgentServiceRegistration{}
	add := func(problem string, change func(*api.AgentServiceRegistration)) {
		r := &api.AgentServiceRegistration{
			ID: fmt.Sprintf("bad%d-1", len(out)), Name: "bad", Address: "127.0.0.1", Port: 1, Meta: map[string]string{"hds": "http"},
		}
		change(r)
		out[fmt.Sprintf("%s (%d)", problem, len(out))] = r
	}
	meta := func(problem, key string, values ...string) {
		for _, v := range values {
			add(problem, func(r *api.AgentServiceRegistration) { r.Meta[key] = v })
		}
	}
	meta("cannot be probed yet", "hds_address", "no-such-host.invalid", "a.b.invalid.")
	meta("neither an IP address", "hds_address", "[::1]", "127.1", "1", "0177.0.0.1", "127.000.000.001",
		"127.0.0.1:80", "127.0.0.1/8", "::1%lo", "fe80::1%eth0", "/run/app.sock", "@abstract")
	meta("cannot be probed", "hds_address", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0", "255.255.255.255")
	meta("is not allowed: from 1 to 65535", "hds_port", "0", "65536", "-1", "4294967296")
	meta("is not a whole number", "hds_port", "http", "80.5", "0x50", "1e3", "8 0")
	meta("it must begin with /", "hds_path", "health", "http://other/", "/a b", "/a\tb", "/a#b", "/é", "/a\r\nHost: x", "/a\x00b", "/\x7f")
	meta("a host name or address", "hds_host", "a b", "a\r\nX: y", "é", "a/b", "a\x00b", strings.Repeat("a", 256))
	meta("one of GET, HEAD", "hds_method", "CONNECT", "FOO", "GET /")
	meta("from 100 to 599", "hds_expected_statuses", "99", "600", "299-200", "200-600", "-1", "200-", "2xx", "200;201", "9999999999")
	meta("is not a duration", "hds_interval", "5", "1 s", "fast", "9223372036854775807", "1e9s", "10000000000s")
	meta("from 100ms to 1h", "hds_interval", "0s", "-1s", "1ns", "1ms", "99ms", "61m", "2562047h")
	meta("from 100ms to 1h", "hds_timeout", "0s", "-1s", "999us", "2h")
	meta("from 1 to 1000", "hds_healthy_threshold", "0", "-1", "1001", "4294967295")
	meta("from 1 to 1000", "hds_unhealthy_threshold", "0", "4294967295")
	meta("at most 10m", "hds_unhealthy_threshold", "1000")
	meta("auto, sidecar or node", "hds_observer", "everyone")
	meta("no such key", "hds_prot", "80")
	meta("no such key", "hds_healthy", "%ENVIRONMENT(HOME)%")
	meta("http, tcp, grpc or off", "hds", "htpp", "true", "redis")
	meta("enforce or shadow", "hds_mode", "dry", "on")
	meta("true or false", "hds_tls", "yes", "1", "on")
	meta("would verify nothing", "hds_tls", "true", "TRUE")
	meta("TLS is not", "hds_tls_server_name", "app.example")
	meta("TLS is not", "hds_tls_skip_verify", "true")
	meta("a host name or an IP address", "hds_tls_server_name", "a b", "a\x00b", "é", strings.Repeat("a", 254), "fe80::1%lo", "*.example")
	meta("a http probe has no such attribute", "hds_grpc_service", "x")
	for _, v := range []string{"a\nb", "a\x00b", strings.Repeat("s", 256)} {
		add("without control characters", func(r *api.AgentServiceRegistration) { r.Meta["hds"], r.Meta["hds_grpc_service"] = "grpc", v })
	}
	for _, kind := range []string{"tcp", "grpc"} { // what is bad for one is bad for all
		for key, values := range map[string][]string{
			"hds_port": {"0", "65536", "x"}, "hds_interval": {"0s", "-1s", "1ms", "5"}, "hds_timeout": {"0s", "-1s", "1ms", "5"},
			"hds_healthy_threshold": {"0", "x"}, "hds_unhealthy_threshold": {"0", "1001"}, "hds_address": {"127.1", "0.0.0.0", "::1%lo", "a b"},
		} {
			for _, v := range values {
				add("meta "+key, func(r *api.AgentServiceRegistration) { r.Meta["hds"], r.Meta[key] = kind, v })
			}
		}
		for _, key := range []string{"hds_path", "hds_method", "hds_host", "hds_expected_statuses"} {
			add("meta "+key, func(r *api.AgentServiceRegistration) { r.Meta["hds"], r.Meta[key] = kind, "\x01" })
		}
	}
	add("a tcp probe has no such attribute", func(r *api.AgentServiceRegistration) { r.Meta["hds"], r.Meta["hds_path"] = "tcp", "/" })
	add("has no port", func(r *api.AgentServiceRegistration) { r.Port = 0 })
	for _, a := range []string{"not a host", "/tmp/x", "127.0.0.1:80", "db.invalid", "::1%lo", "224.0.0.1", "127.1", strings.Repeat("a", 64)} {
		add("address \"", func(r *api.AgentServiceRegistration) { r.Address = a })
	}
	for _, p := range []string{"relative.sock", "/a/../b.sock", "/" + strings.Repeat("s", 107), "@abstract"} {
		add("socket path", func(r *api.AgentServiceRegistration) { r.SocketPath, r.Port, r.Address = p, 0, "" })
	}
	for _, id := range []string{"a//b", "a/../b", "a\nb", "long" + strings.Repeat("x", 1100)} {
		add("service id", func(r *api.AgentServiceRegistration) { r.ID = id })
	}
	return out
}

func TestHostileRegistrationsHurtNobody(t *testing.T) {
	w := newWorld(t, quick)
	e := w.startEnvoy(theNode)
	good := w.app()
	w.register("good-1", good.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:good-1", api.HealthPassing))
	s := w.sample(map[string]string{"hds:good-1": api.HealthPassing})
	bad := hostile()
	for name, r := range bad {
		require.NoError(t, w.client.Agent().ServiceRegister(r), "%s: %q", name, r.Meta)
	}
	t.Logf("%d hostile registrations", len(bad))
	w.eventually(patience, func() error {
		told := map[string]string{}
		for _, p := range w.status().Problems {
			told[p.ServiceID] += p.Message + "\n"
		}
		for name, r := range bad {
			want, _, _ := strings.Cut(name, " (")
			if !strings.Contains(told[r.ID], want) {
				return fmt.Errorf("of %q, meta %q, it is said %q, want %q", r.ID, r.Meta, told[r.ID], want)
			}
		}
		return nil
	})
	assert.Len(t, w.status().Checks, 1, "nothing is guessed")

	// The same as changes of one that is good: its last good definition goes on.
	changing := w.app()
	w.register("changing-1", changing.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:changing-1", api.HealthPassing))
	for _, r := range bad {
		w.register("changing-1", changing.Port(), r.Meta)
	}
	w.register("changing-1", changing.Port(), map[string]string{"hds": "htpp"})
	w.eventually(patience, func() error {
		if p := w.problems("changing-1"); len(p) != 1 {
			return fmt.Errorf("problems are %q", p)
		}
		return nil
	})
	changing.SetStatus(500)
	w.eventually(patience, w.has("hds:changing-1", api.HealthCritical))
	w.register("changing-1", changing.Port(), nil)
	w.eventually(patience, w.has("hds:changing-1", ""))

	// What is allowed at the edges is applied.
	edges := []map[string]string{
		{"hds": "http", "hds_path": "/" + strings.Repeat("a", 510)}, {"hds": "http", "hds_host": strings.Repeat("a", 255)},
		{"hds": "http", "hds_expected_statuses": "100-599"}, {"hds": "http", "hds_method": "trace"}, {"hds": "http", "hds_method": "options"},
		{"hds": "http", "hds_interval": "100ms", "hds_timeout": "100ms"}, {"hds": "http", "hds_interval": "1h", "hds_unhealthy_threshold": "1"}, {"hds": "http", "hds_timeout": "10m", "hds_unhealthy_threshold": "1"},
		{"hds": "http", "hds_healthy_threshold": "1000"}, {"hds": "tcp", "hds_port": "65535"}, {"hds": "tcp", "hds_address": "::1"},
		{"hds": "tcp", "hds_address": "::ffff:127.0.0.1"}, {"hds": "tcp", "hds_address": "2001:0DB8:0:0:0:0:0:1"}, {"hds": "http", "hds_path": "/%25%ENVIRONMENT(HOME)%"},
		{"hds": "grpc"}, {"hds": "grpc", "hds_grpc_service": strings.Repeat("é", 127)}, {"hds": "http", "hds_tls": "true", "hds_tls_skip_verify": "true"},
		{"hds": "tcp", "hds_tls": "true", "hds_tls_skip_verify": "true", "hds_tls_server_name": strings.Repeat("a.", 126) + "a"},
		{"hds": "grpc", "hds_tls": "true", "hds_tls_skip_verify": "true", "hds_tls_server_name": "::1"}, {"hds": "http", "hds_address": "localhost"},
	}
	for i, m := range edges {
		w.register(fmt.Sprintf("edge%d-1", i), good.Port(), m)
	}
	odd := []string{"a:b", "a b", "a%2Fb", "a?b#c", `a"b`, "é", "a/b", strings.Repeat("i", 1000)}
	for i, id := range odd {
		require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: fmt.Sprint("odd", i), Address: "127.0.0.1", Port: good.Port(), Meta: map[string]string{"hds": "http"},
		}))
	}
	probes := 1 + len(edges) + len(odd)
	w.eventually(patience, func() error {
		if o := w.observer(theNode); !o.Applied || o.Probes != probes {
			return fmt.Errorf("%d probes, want %d: %+v", o.Probes, probes, o)
		}
		return nil
	})
	for _, id := range odd {
		w.eventually(patience, w.has("hds:"+id, api.HealthPassing))
	}
	time.Sleep(2 * time.Second)
	s.ends(t)
	stats, err := e.Stats(w.ctx)
	require.NoError(t, err, "Envoy lives")
	assert.Zero(t, stats["hds_delegate.errors"], "Envoy has refused nothing")
	require.NoError(t, w.daemon.WaitReady(w.ctx))
	good.SetStatus(500)
	w.eventually(patience, w.has("hds:good-1", api.HealthCritical))
}
