package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const typePrefix = "type.googleapis.com/"

// endpoint is where Envoy reaches the daemon.
type endpoint struct {
	// address is in Envoy's form.
	address object
	// discovery is the type of the cluster.
	discovery string
	// host is an IP address or a host name; empty for a socket.
	host string
	// local says that nothing leaves the node.
	local bool
}

// parseAddress reads an address to connect to, as hds.listen may have it.
func parseAddress(s string) (endpoint, error) {
	if socket, ok := strings.CutPrefix(s, "unix://"); ok {
		e := endpoint{discovery: "STATIC", address: object{"pipe": object{"path": socket}}, local: true}
		return e, probe.CheckSocket(socket)
	}
	host, text, err := net.SplitHostPort(s)
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil || port == 0 {
		return endpoint{}, noAddress(s)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	e := endpoint{discovery: "STRICT_DNS", host: host}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() {
			return endpoint{}, fmt.Errorf("%s means every address of the node: name the one that Envoy is to connect to", s)
		}
		if ip, err = probe.ParseAddress(host); err != nil {
			return endpoint{}, noAddress(s)
		}
		e.discovery, e.host, e.local = "STATIC", ip.String(), ip.IsLoopback()
	} else if probe.CheckServerName(host) != nil {
		return endpoint{}, noAddress(s)
	}
	e.address = object{"socket_address": object{"address": e.host, "port_value": port}}
	return e, nil
}

func noAddress(s string) error {
	return fmt.Errorf("%.80q is no address to connect to: unix:// and the path of a socket, or an IP address or host name with a port", s)
}

// hdsConfig is the HDS client, which sends a token unless it is empty.
func (a *Addition) hdsConfig(token string) object {
	service := object{"envoy_grpc": object{"cluster_name": ClusterName}}
	if token != "" {
		service["initial_metadata"] = []any{object{"key": tokenHeader, "value": token}}
	}
	return object{"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": []any{service}}
}

// cluster is the static cluster of the daemon. Its keep-alive notices a daemon
// that hangs, and a connection that is dead on one side; the daemon permits one
// ping in 5 s.
func (a *Addition) cluster() object {
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	c := object{
		"name": ClusterName, "type": a.endpoint.discovery, "connect_timeout": "1s",
		"typed_extension_protocol_options": object{options: object{
			"@type": typePrefix + options,
			"explicit_http_config": object{"http2_protocol_options": object{
				"connection_keepalive": object{"interval": "10s", "timeout": "5s"},
			}},
		}},
		"load_assignment": object{
			"cluster_name": ClusterName,
			"endpoints": []any{object{"lb_endpoints": []any{
				object{"endpoint": object{"address": a.endpoint.address}},
			}}},
		},
	}
	if a.endpoint.discovery == "STRICT_DNS" {
		c["dns_lookup_family"] = "V4_PREFERRED"
	}
	if a.tls != nil {
		c["transport_socket"] = a.tls
	}
	return c
}

// transportSocket is TLS as the cluster speaks it. gRPC servers insist on the
// ALPN protocol h2; Envoy's own maximum for clients is TLS 1.2.
func transportSocket(t TLS, e endpoint) (object, error) {
	name, err := t.verifiedName(e)
	if err != nil {
		return nil, err
	}
	san, context := "DNS", object{}
	if ip, err := netip.ParseAddr(name); err == nil {
		san, name = "IP_ADDRESS", ip.Unmap().String()
	} else {
		context["sni"] = name
	}
	common := object{
		"alpn_protocols": []any{"h2"},
		"tls_params":     object{"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
		"validation_context": object{
			"trusted_ca":                    object{"filename": t.CAFile},
			"match_typed_subject_alt_names": []any{object{"san_type": san, "matcher": object{"exact": name}}},
		},
	}
	if t.CertFile != "" {
		common["tls_certificates"] = []any{object{
			"certificate_chain": object{"filename": t.CertFile}, "private_key": object{"filename": t.KeyFile},
		}}
	}
	context["@type"] = typePrefix + "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	context["common_tls_context"] = common
	return object{"name": "envoy.transport_sockets.tls", "typed_config": context}, nil
}

// verifiedName checks the options, and returns the name that the daemon's
// certificate must have.
func (t TLS) verifiedName(e endpoint) (string, error) {
	switch {
	case e.host == "":
		return "", errors.New("TLS is for TCP addresses: the daemon's unix sockets are plain text")
	case t.CAFile == "":
		return "", errors.New("TLS needs a CA file: without one Envoy would verify nothing")
	case (t.CertFile == "") != (t.KeyFile == ""):
		return "", errors.New("a certificate file and a key file need each other")
	}
	for _, file := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		if file != "" && !path.IsAbs(file) {
			return "", fmt.Errorf("%.80q is not allowed: files are named by their absolute paths, as Envoy sees them", file)
		}
	}
	name := t.ServerName
	if name == "" {
		name = e.host
	}
	return strings.TrimSuffix(name, "."), probe.CheckServerName(name)
}
