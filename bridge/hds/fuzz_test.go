package hds

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

func bytesOf(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	require.NoError(tb, err)
	return b
}

// holdsRequest says whether a message holds a health check request anywhere. Of a
// message with both, proto's decoder keeps the last; to us it is none.
func holdsRequest(b []byte) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		if number == fieldRequest && kind == protowire.BytesType {
			return true
		}
		b = b[n:]
	}
	return false
}

// unmarshalled is what proto's own decoder makes of a report; false if it is none
// to it, or holds a request.
func unmarshalled(b []byte, wanted func(string) bool) (report, bool) {
	m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	if proto.Unmarshal(b, m) != nil || holdsRequest(b) {
		return report{}, false
	}
	r := report{sightings: map[string]wired{}}
	for _, c := range m.GetEndpointHealthResponse().GetClusterEndpointsHealth() {
		name := c.GetClusterName()
		if !wanted(name) {
			r.others++
			continue
		}
		got, ok := single(c)
		_, again := r.sightings[name]
		r.sightings[name], r.repeats = wired{got, ok && isAnswer(got.status)}, r.repeats || again
	}
	return r, true
}

// reportSeeds are likely messages of Envoys and of liars.
func reportSeeds(tb testing.TB, a, b string) [][]byte {
	two := reportOf(echo{a, up, 200})
	list := two.GetEndpointHealthResponse().ClusterEndpointsHealth[0].LocalityEndpointsHealth[0]
	list.EndpointsHealth = append(list.EndpointsHealth, list.EndpointsHealth[0])
	hollow := reportOf(echo{a, up, 200}, echo{b, up, 0})
	for i, c := range hollow.GetEndpointHealthResponse().ClusterEndpointsHealth {
		c.LocalityEndpointsHealth = []*healthv3.LocalityEndpointsHealth{{}, {}}[:i] // none, and one without endpoints
	}
	return [][]byte{
		bytesOf(tb, hollow), nil, {0xff}, bytesOf(tb, requestOf("n1")), bytesOf(tb, two),
		bytesOf(tb, reportOf(echo{a, up, 200}, echo{b, down, 0})), bytesOf(tb, reportOf(echo{a, down, 429}, echo{a, up, 1e300})),
		bytesOf(tb, reportOf(echo{a, up, 200}, echo{b, up, 0})), bytesOf(tb, reportOf(echo{a, down, 503}, echo{b, up, 0})),
		append(bytesOf(tb, reportOf(echo{a, up, 200})), bytesOf(tb, reportOf(echo{b, down, 0}))...),
		bytesOf(tb, reportOf(echo{a, corev3.HealthStatus_DRAINING, 0}, echo{b, -7, 0})), bytesOf(tb, reportOf(echo{"", corev3.HealthStatus_DEGRADED, 0})),
	}
}

// FuzzReports feeds two sessions with the same messages, in an order that is
// drawn too, while plans come and go. One reads only what has changed, the other
// all of it; both have to know the same, and what is read has to be what proto's
// own decoder reads.
func FuzzReports(f *testing.F) {
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asTCP})
	fewer, _ := planOf(map[string]map[string]string{"b": asTCP})
	seeds := reportSeeds(f, probes["a"].Cluster, probes["b"].Cluster)
	for i := range seeds {
		f.Add(seeds[i], seeds[(i+5)%len(seeds)], seeds[(i+7)%len(seeds)], uint32(0x9E3779B9*i))
	}
	f.Fuzz(func(t *testing.T, first, second, third []byte, order uint32) {
		newDialogue([]*Plan{plan, fewer}, probes).hold(t, [][]byte{first, second, third}, order)
	})
}

// dialogue is a stream whose reports are read in two ways.
type dialogue struct {
	plans  []*Plan
	probes map[string]*probe.Probe
	pair   [2]twin
	now    time.Time
	// word are the instances of which a report may have held an answer.
	word map[string]bool
}

func newDialogue(plans []*Plan, probes map[string]*probe.Probe) *dialogue {
	d := &dialogue{plans: plans, probes: probes, now: t0, word: map[string]bool{}}
	for i := range d.pair {
		d.pair[i].s = newSession(1, newIdentity(newNode("n1")), "peer", nil)
		d.pair[i].s.commit(plans[0], t0)
	}
	return d
}

// hold says the messages in an order of two bits each: one of three, or another
// plan. It ends with the stream.
func (d *dialogue) hold(t *testing.T, messages [][]byte, order uint32) {
	for n := range 16 {
		d.now = d.now.Add(interval)
		turn := int(order>>(2*n)) & 3
		if turn == 3 {
			for i := range d.pair {
				d.pair[i].s.commit(d.plans[n%2], d.now)
			}
			continue
		}
		if !d.say(t, messages[turn]) {
			return
		}
		d.compare(t)
	}
}

// say says one message to both, and tells whether the stream goes on.
func (d *dialogue) say(t *testing.T, b []byte) bool {
	d.read(t, b)
	before := d.pair[0].s.reports
	d.pair[0].f.take(mem.BufferSlice{mem.SliceBuffer(b[:len(b)/2]), mem.SliceBuffer(b[len(b)/2:])})
	d.pair[1].f.take(wireOf(b))
	d.pair[1].f.forget()
	dirty, freed, err := d.pair[0].s.report(&d.pair[0].f, d.now)
	wantDirty, wantFreed, wantErr := d.pair[1].s.report(&d.pair[1].f, d.now)
	require.Equal(t, wantErr == nil, err == nil, "%v, and of the whole: %v", err, wantErr)
	if err != nil {
		assert.Equal(t, before, d.pair[0].s.reports, "what is no report does not count")
		return false
	}
	assert.Equal(t, before+1, d.pair[0].s.reports)
	assert.Equal(t, wantFreed, freed)
	assert.Equal(t, sorted(wantDirty), sorted(dirty))
	return true
}

// read compares our reader with proto's.
func (d *dialogue) read(t *testing.T, b []byte) {
	wanted := func(name string) bool { return name == d.probes["a"].Cluster || name == d.probes["b"].Cluster }
	want, ok := unmarshalled(b, wanted)
	got, err := readReport(b, wanted)
	if ok {
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for id, p := range d.probes { // by itself: what is not wanted may be broken
		one, err := readReport(b, func(name string) bool { return name == p.Cluster })
		d.word[id] = d.word[id] || err == nil && one.sightings[p.Cluster].answers
	}
}

// compare holds the two sessions against one another.
func (d *dialogue) compare(t *testing.T) {
	require.Equal(t, d.pair[1].s.info(), d.pair[0].s.info())
	for id, p := range d.probes {
		require.Equal(t, d.pair[1].s.observation(p), d.pair[0].s.observation(p))
		checkObservation(t, d.pair[0].s, p, d.word[id], d.now)
	}
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// checkObservation checks what holds of an observation after any report.
func checkObservation(t *testing.T, s *session, p *probe.Probe, word bool, now time.Time) {
	t.Helper()
	o := s.observation(p)
	if !o.Answered {
		assert.Equal(t, Observation{NodeID: "n1", Stream: 1}, o)
		return
	}
	assert.True(t, word, "no report has ever held an answer")
	assert.True(t, isAnswer(o.Status))
	assert.True(t, o.Code == 0 || o.Code >= 100 && o.Code <= 599, o.Code)
	assert.True(t, o.Reports >= 0 && uint64(o.Reports) < s.reports, o.Reports)
	assert.True(t, o.WasHealthy || o.Status != up)
	assert.False(t, o.At.After(now) || o.At.Before(t0), o.At)
}

// oneMessage is a server's stream on which one message comes.
type oneMessage struct {
	grpc.ServerStream
	data []byte
}

func (o oneMessage) RecvMsg(m any) error {
	return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(o.data)}, m)
}

func FuzzFirstMessage(f *testing.F) {
	for _, m := range []proto.Message{requestOf("n1"), requestOf(""), requestOf("web-1-sidecar-proxy"), reportOf(), reportOf(echo{"c", up, 0})} {
		f.Add(bytesOf(f, m))
	}
	f.Add([]byte{0xff})
	plan, _ := planOf(map[string]map[string]string{"a": asHTTP})
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr frame
		ident, err := (&stream{server: &Server{}, grpc: oneMessage{data: data}}).first(&fr)
		if err != nil {
			assert.Zero(t, ident)
			return
		}
		m := &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
		if proto.Unmarshal(data, m) == nil { // what is wrong with an extension is not looked at
			assert.Equal(t, m.GetHealthCheckRequest().GetNode().GetId(), ident.id)
		}
		assert.NotEmpty(t, ident.id)
		kind, probes := plan.assign(ident)
		assert.True(t, kind == NodeEnvoy || len(probes) == 0)
	})
}

// FuzzGuard shows the last guard any cluster. What it lets pass is within the
// bounds, by another reading of them than its own.
func FuzzGuard(f *testing.F) {
	_, probes := world(nodeOnly, map[string]map[string]string{
		"http": {"hds": "http"}, "tcp": asTCP, "grpc": {"hds": "grpc"}, "tls": {"hds": "http", "hds_tls": "true", "hds_tls_skip_verify": "true"},
	})
	for id, p := range probes {
		c, err := buildCluster(p)
		require.NoError(f, err)
		f.Add(bytesOf(f, c))
		for name, harm := range harms() {
			if c, err = buildCluster(p); err == nil && id == "http" && !strings.HasPrefix(name, "tls") {
				harm(c)
				b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(c)
				require.NoError(f, err)
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &healthv3.ClusterHealthCheck{}
		if proto.Unmarshal(b, c) != nil || guard(c) != nil {
			return
		}
		require.NoError(t, c.ValidateAll())
		require.NoError(t, harmless(c))
	})
}

// registered is an instance, with a sidecar or without, as three texts and a
// choice tell: meta is lines of key=value.
func registered(meta, address, socket string, port int, choice uint32) *catalog.Snapshot {
	inst := &catalog.Instance{ID: "web-1", Service: "web", Address: address, SocketPath: socket, Port: port, Meta: map[string]string{}}
	for line := range strings.SplitSeq(meta, "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			inst.Meta[key] = value
		}
	}
	snap := &catalog.Snapshot{Node: catalog.Node{Address: "10.0.0.1"}, Instances: map[string]*catalog.Instance{inst.ID: inst}}
	if choice&1 != 0 {
		snap.Instances["side"] = &catalog.Instance{ID: "side", Service: "side", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{
			DestinationServiceName: "web", DestinationServiceID: inst.ID, LocalServiceAddress: address, LocalServicePort: port, LocalServiceSocketPath: socket,
		}}
	}
	return snap
}

// configured are the rules that a header, a payload and a choice make: only such
// as the config lets through, value by value.
func configured(header, value, payload string, choice uint32) *probe.Rules {
	of := func(n uint32, words ...string) string { return words[int(choice>>n)%len(words)] }
	s := probe.Settings{
		Kind: probe.Kind(of(1, "http", "tcp", "grpc")), TLS: probe.Switch(of(3, "", "true", "false")), TLSSkipVerify: probe.Switch(of(5, "", "true")),
		TLSServerName: of(6, "", "a.b", "::1"), TLSCAFile: of(8, "", "/ca", "/missing"), Observer: probe.ObserverPolicy(of(10, "", "auto", "node", "sidecar")),
		Interval: time.Duration(choice>>16) * time.Millisecond, UnhealthyThreshold: min(int(choice>>24)*4, 1000),
	}
	if probe.CheckDuration(s.Interval) != nil {
		s.Interval = 0
	}
	if p, err := probe.ParsePayload(payload); err == nil && s.Kind != probe.GRPC {
		s.Receive = []probe.Payload{p, p}
		if s.Kind == probe.HTTP {
			s.Body, s.Method, s.HTTP2 = p, of(12, "", "GET", "POST", "PATCH"), choice&(1<<14) != 0
		} else {
			s.Send = p
		}
	}
	if headers := map[string][]string{header: {value, value}}; s.Kind == probe.HTTP && probe.CheckHeaders(headers) == nil {
		s.Headers = headers
	}
	return &probe.Rules{
		Defaults: probe.Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: probe.Auto},
		Services: []probe.Service{{Name: "w*", Checks: []probe.Check{{Name: probe.DefaultName, Settings: s}, {Name: "x", Settings: s}}}},
	}
}

// FuzzSpecifiers registers any instance under any rules. What is sent for it
// satisfies the protos' own rules, the guard, and the bounds written down a second
// time; and nothing is left for the guard.
func FuzzSpecifiers(f *testing.F) {
	for i, meta := range []string{"hds=http\nhds_path=/%ENVIRONMENT(X)%", "hds=tcp\nhds_port=1", "hds=grpc\nhds_grpc_service=é", "hds_path=/x", "hds=http\nhds_address=localhost\nhds_tls=true\nhds_tls_skip_verify=true", "", "hds=off"} {
		f.Add(meta, "127.0.0.1", "", 80, "x-probe", "100%", "hex:00ff", uint32(0x9E3779B9*(i+1)))
		f.Add(meta, "", "/run/a.sock", 0, "Host", "a\r\nb", "", uint32(0x85EBCA6B*(i+1)))
	}
	f.Fuzz(func(t *testing.T, meta, address, socket string, port int, header, value, payload string, choice uint32) {
		world := probe.World{
			Snapshot: registered(meta, address, socket, port, choice),
			Names:    map[string]probe.Known[netip.Addr]{"localhost": {Value: netip.MustParseAddr("127.0.0.1"), Good: true}},
			Files:    map[string]probe.Known[[]byte]{"/ca": {Value: []byte("garbage"), Good: true}},
		}
		hurtsNobody(t, world, configured(header, value, payload, choice))
	})
}
