package hds

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// TestAnEchoIsWhatAReportSays: else it would be of no use to the packer. The report is
// held to a real Envoy's by the tests of the load tool.
func TestAnEchoIsWhatAReportSays(t *testing.T) {
	r := newReporting(t, 3)
	probes := r.session.probes()
	require.Len(t, probes, 3)
	for _, p := range probes {
		assert.Contains(t, string(r.reports[0]), string(appendEcho(nil, p)), p.Cluster)
	}
}

// TestWhatWasPackedByAnyTargetIsUnpacked: by addresses of both families, sockets, and
// kinds without a code.
func TestWhatWasPackedByAnyTargetIsUnpacked(t *testing.T) {
	var probes []*probe.Probe
	var said []hdstest.Endpoint
	for i, target := range []probe.Target{
		{Addr: netip.MustParseAddrPort("192.0.2.1:80")}, {Addr: netip.MustParseAddrPort("[2001:db8::1]:65535")},
		{Addr: netip.MustParseAddrPort("[fe80::1%eth0]:1")}, {Socket: "/run/ünïcode/app.sock"}, {},
	} {
		for _, kind := range []probe.Kind{probe.HTTP, probe.TCP, probe.GRPC} {
			p := &probe.Probe{Cluster: fmt.Sprintf("hds:%s-%d@0", kind, i), Target: target, Settings: probe.Settings{Kind: kind}}
			probes = append(probes, p)
			said = append(said, hdstest.Endpoint{Cluster: p.Cluster, Address: buildAddress(target), Status: up, Code: 200})
		}
	}
	report, err := hdstest.Report(said)
	require.NoError(t, err)
	p := newPacker()
	for _, message := range [][]byte{report, []byte("anything else"), {0}} {
		m := p.pack(message, probes)
		assert.Equal(t, message, p.unpack(m))
		assert.True(t, p.same(m, wireOf(message)))
	}
	assert.Less(t, len(p.pack(report, probes).bytes), len(p.pack(report, nil).bytes)/2)
}
