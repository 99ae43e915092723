package hds

import (
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// tlsSocket is the name of Envoy's TLS transport socket.
const tlsSocket = "envoy.transport_sockets.tls"

// buildTLS makes the transport socket of a probe with TLS. HDS clusters have no
// socket of their own; one that matches everything serves for it
// (facts/envoy-hds.md 0.23, 3). All material is inline: a path that cannot be
// read would be Envoy's death.
func buildTLS(p *probe.Probe) ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	if p.TLS == nil {
		return nil, nil
	}
	ctx := &tlsv3.UpstreamTlsContext{
		Sni: sni(p.TLS.ServerName), CommonTlsContext: buildCommonTLS(p),
		// A resumed session shows no certificate: a new one would go unverified.
		MaxSessionKeys: wrapperspb.UInt32(0),
	}
	config, err := anypb.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("encoding the TLS context: %w", err)
	}
	return []*clusterv3.Cluster_TransportSocketMatch{{
		Name:  "tls",
		Match: &structpb.Struct{},
		TransportSocket: &corev3.TransportSocket{
			Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config},
		},
	}}, nil
}

// buildCommonTLS makes what client and server TLS have in common. Envoy's own
// maximum for clients is TLS 1.2, which a server may refuse.
func buildCommonTLS(p *probe.Probe) *tlsv3.CommonTlsContext {
	c := &tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}}
	if p.Settings.HTTP2 || p.Settings.Kind == probe.GRPC {
		c.AlpnProtocols = []string{"h2"} // without it servers speak HTTP/1.1 (facts/envoy-hds.md 0c)
	}
	if p.TLS.Cert != nil {
		c.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: inline(p.TLS.Cert), PrivateKey: inline(p.TLS.Key)}}
	}
	if p.TLS.CA != nil {
		c.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa:                 inline(p.TLS.CA),
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{san(p.TLS.ServerName)},
		}}
	}
	return c
}

// sni is what a server is told of the name wanted. An address is no SNI (RFC
// 6066, section 3).
func sni(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	return name
}

// san matches the name that a server's certificate has to have, exactly.
func san(name string) *tlsv3.SubjectAltNameMatcher {
	kind := tlsv3.SubjectAltNameMatcher_DNS
	if addr, err := netip.ParseAddr(name); err == nil {
		kind, name = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, addr.String()
	}
	return &tlsv3.SubjectAltNameMatcher{
		SanType: kind,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
	}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}

// guardTLS looks at a built transport socket: everything in it inline, and
// nothing that verifies without a CA.
func guardTLS(matches []*clusterv3.Cluster_TransportSocketMatch) error {
	if len(matches) == 0 {
		return nil
	}
	var ctx tlsv3.UpstreamTlsContext
	config := matches[0].GetTransportSocket().GetTypedConfig()
	if len(matches) > 1 || config == nil {
		return fmt.Errorf("not one transport socket")
	}
	if err := config.UnmarshalTo(&ctx); err != nil {
		return fmt.Errorf("the transport socket: %w", err)
	}
	if err := ctx.ValidateAll(); err != nil {
		return err
	}
	common := ctx.GetCommonTlsContext()
	sources := []*corev3.DataSource{}
	for _, c := range common.GetTlsCertificates() {
		sources = append(sources, c.GetCertificateChain(), c.GetPrivateKey())
	}
	if v := common.GetValidationContext(); v != nil {
		sources = append(sources, v.GetTrustedCa())
	}
	for _, s := range sources {
		if len(s.GetInlineBytes()) == 0 {
			return fmt.Errorf("TLS material is not inline")
		}
	}
	if len(ctx.Sni) > 255 {
		return fmt.Errorf("the server name is too long")
	}
	return nil
}
