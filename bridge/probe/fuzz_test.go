package probe

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// metaOf reads lines of key=value.
func metaOf(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			out[key] = value
		}
	}
	return out
}

// ours says whether a meta key is one that means something to us.
func ours(key string) bool { return key == "hds" || strings.HasPrefix(key, "hds_") }

// FuzzMeta registers an instance with any meta, with and without a check of the
// config. It becomes a probe within the bounds or problems that name what is
// wrong, or nothing where nothing is asked for.
func FuzzMeta(f *testing.F) {
	for _, text := range []string{
		"hds=http\nhds_path=/ready\nhds_expected_statuses=200-299,304", "hds=tcp\nhds_port=5432", "hds=grpc\nhds_grpc_service=a.B\nhds_tls=true\nhds_tls_skip_verify=true",
		"hds=off", "hds_path=/x", "hds= HTTP \nhds_method=post\nhds_interval=\nhds_timeout=1h", "hds=http\nhds_x=1", "HDS=http\nother=1", "hds=http\nhds_address=localhost",
		"hds=http\nhds_address=::ffff:1.2.3.4\nhds_mode=shadow\nhds_observer=Sidecar", "hds=http\nhds_unhealthy_threshold=1000\nhds_tls_server_name=a b", "hds=\xff\nhds_\x00=é",
	} {
		f.Add(text, "127.0.0.1", "", 80, false)
		f.Add(text, "", "/run/a.sock", 0, true)
	}
	f.Fuzz(func(t *testing.T, text, address, socket string, port int, config bool) {
		inst := web(metaOf(text))
		inst.Address, inst.SocketPath, inst.Port = address, socket, port
		r := rules()
		if config {
			r = rules(Service{Name: "web", Checks: []Check{{Name: DefaultName, Settings: Settings{Kind: HTTP, Path: "/config"}}}})
		}
		world := World{Snapshot: snapshot(inst), Names: map[string]Known[netip.Addr]{"localhost": {Value: netip.MustParseAddr("127.0.0.1"), Good: true}}}
		got := Derive(world, r, nil)
		require.Equal(t, got, Derive(world, r, nil), "the same again")
		checkOutcome(t, inst, got, config)
	})
}

// checkOutcome holds what was derived of one instance against its meta.
func checkOutcome(t *testing.T, inst *catalog.Instance, got Result, config bool) {
	t.Helper()
	asked := config
	for key, value := range inst.Meta {
		known := metaKeys[key] != nil || key == metaKind
		asked = asked || ours(key) && !(known && strings.TrimSpace(value) == "")
	}
	if strings.EqualFold(strings.TrimSpace(inst.Meta[metaKind]), "off") || !asked {
		require.Empty(t, got.Probes)
		require.Empty(t, got.Problems)
		return
	}
	outcomes := len(got.Probes)
	if len(got.Problems) > 0 || len(got.Waiting) > 0 {
		outcomes++
	}
	require.Equal(t, 1, outcomes, "a probe, or why there is none: %+v", got)
	for _, p := range got.Problems {
		checkProblem(t, inst, p)
	}
	for _, p := range got.Probes {
		checkBounds(t, p)
	}
}

// checkProblem wants a problem of meta to name a key, and a reason that a line of
// a log can hold.
func checkProblem(t *testing.T, inst *catalog.Instance, p Problem) {
	t.Helper()
	require.Equal(t, inst.ID, p.ServiceID)
	require.NotEmpty(t, p.Message)
	require.Less(t, len(p.Message), 2000)
	switch p.Source {
	case SourceConsul, SourceConfig:
	case SourceMeta:
		named := strings.Contains(p.Message, "hds_") || strings.Contains(p.Message, "meta hds") ||
			strings.Contains(p.Message, "unhealthy_threshold") || strings.Contains(p.Message, inst.Meta["hds_address"])
		require.True(t, named, "%q names no key", p.Message)
	default:
		require.Fail(t, "a source that is none", p.Source)
	}
}

// checkBounds holds a probe against the bounds of the documentation.
func checkBounds(t *testing.T, p *Probe) {
	t.Helper()
	s := p.Settings
	for _, d := range []time.Duration{s.Interval, s.Timeout} {
		require.True(t, d >= 100*time.Millisecond && d <= time.Hour, d)
	}
	for _, n := range []int{s.HealthyThreshold, s.UnhealthyThreshold} {
		require.True(t, n >= 1 && n <= 1000, n)
	}
	require.LessOrEqual(t, Grace(s), 10*time.Minute)
	require.Contains(t, []Kind{HTTP, TCP, GRPC}, s.Kind)
	require.Contains(t, []ObserverPolicy{Auto, Sidecar, Node}, s.Observer)
	require.Contains(t, []Mode{"", Enforce, Shadow}, s.Mode)
	for _, r := range s.ExpectedStatuses {
		require.True(t, r.First >= 100 && r.Last <= 599 && r.First <= r.Last, r)
	}
	if p.Target.Socket == "" {
		addr := p.Target.Addr.Addr()
		require.True(t, addr.IsValid() && !addr.Is4In6() && !addr.IsUnspecified() && !addr.IsMulticast() && addr.Zone() == "", addr)
		require.NotZero(t, p.Target.Addr.Port())
	}
	require.True(t, strings.HasPrefix(p.Cluster, "hds:web-1@"), p.Cluster)
}

// FuzzWords reads any text as each kind of value: what is taken can be written and
// read again, and is the same.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"200-299,304", " 100 - 599 ", "hex:0a0B", "hex:", "a\x00b", "1h", "0.1s", "/a?b=%20", "a.b:80", "[::1]:80", "::1", "127.1", "é", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ranges, err := ParseStatuses(s); err == nil {
			words := make([]string, len(ranges))
			for i, r := range ranges {
				words[i] = r.String()
				require.True(t, r.First >= 100 && r.First <= r.Last && r.Last <= 599, r)
			}
			again, err := ParseStatuses(strings.Join(words, ","))
			require.NoError(t, err)
			require.Equal(t, ranges, again)
		}
		if d, err := ParseDuration(s); err == nil {
			again, err := ParseDuration(d.String())
			require.NoError(t, err)
			require.Equal(t, d, again)
		}
		if p, err := ParsePayload(s); err == nil {
			text, err := p.MarshalText()
			require.NoError(t, err)
			again, err := ParsePayload("hex:" + string(text))
			require.NoError(t, err)
			require.Equal(t, p, again)
			require.NotEmpty(t, p)
		}
		if a, err := ParseAddress(s); err == nil {
			require.True(t, a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a.Zone() == "", a)
			require.False(t, isHostName(a.String()) && a.Is4(), "an address is no host name")
		}
		checkWords(t, s)
	})
}

// checkWords checks what each kind of word must never hold.
func checkWords(t *testing.T, s string) {
	t.Helper()
	line := errors.Join(CheckPath(s), CheckHost(s)) == nil
	for name, err := range map[string]error{"path": CheckPath(s), "host": CheckHost(s), "server name": CheckServerName(s), "address": CheckAddress(s), "name": CheckName(s)} {
		if err == nil {
			require.False(t, strings.ContainsAny(s, " \r\n\x00\t"), "%s %q", name, s)
		} else {
			require.Less(t, len(err.Error()), 1000, name)
		}
	}
	require.False(t, line, "a path begins with what no host may hold")
	if CheckSocket(s) == nil {
		require.True(t, len(s) <= 107 && s[0] == '/' && !strings.Contains(s, "\x00"), s)
	}
	if CheckServiceID(s) == nil {
		require.False(t, strings.ContainsAny(s, "\r\n\x00") || strings.Contains(s, "//") || len(s) > 1024, s)
	}
}

// pemSeeds are files as operators have them, and such as they should not.
func pemSeeds(tb testing.TB) [][]byte {
	tb.Helper()
	ca := newAuthority(tb)
	priv := ecKey(tb, elliptic.P256())
	cert, key := ca.issue(tb, &priv.PublicKey, priv)
	return [][]byte{
		ca.pem, cert, key, append(ca.pem, cert...), append([]byte("text\n"), cert...), cert[:len(cert)/2], nil, []byte("-----BEGIN"),
		[]byte("-----BEGIN PRIVATE KEY-----\nDEK-Info: x\n\nAAAA\n-----END PRIVATE KEY-----\n"), block("CERTIFICATE", nil), block("X", []byte{0x30, 0x80}),
	}
}

// FuzzFiles reads any file as a CA, as a client certificate and as its key.
// What is taken is taken again as it was written, and what is refused says
// nothing of a key.
func FuzzFiles(f *testing.F) {
	for _, seed := range pemSeeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if clean, err := readCA(b); err == nil {
			again, err := readCA(clean)
			require.NoError(t, err)
			require.Equal(t, string(clean), string(again))
			require.True(t, x509.NewCertPool().AppendCertsFromPEM(clean))
			require.NotContains(t, string(clean), "PRIVATE")
		}
		if clean, err := readCerts(b); err == nil {
			again, err := readCerts(clean)
			require.NoError(t, err)
			require.Equal(t, string(clean), string(again))
		}
		clean, err := readKey(b)
		if err == nil {
			block, rest := pem.Decode(clean)
			require.NotNil(t, block)
			assert.Empty(t, bytes.TrimSpace(rest), "one block")
			return
		}
		require.Less(t, len(err.Error()), 500)
	})
}
