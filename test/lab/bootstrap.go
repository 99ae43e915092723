package lab

import (
	"fmt"

	"github.com/consul-hds/consul-hds/bootstrap"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // which the bootstraps hold as Any
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// DecodeBootstrap decodes an Envoy bootstrap, or a part of one, in YAML or JSON,
// as strictly as Envoy does: what the protocol does not know, and what breaks its
// rules, is an error.
func DecodeBootstrap(text []byte) (*bootstrapv3.Bootstrap, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("reading a bootstrap: %w", err)
	}
	bootstrap := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(asJSON, bootstrap); err != nil {
		return nil, fmt.Errorf("reading a bootstrap: %w", err)
	}
	if err := bootstrap.ValidateAll(); err != nil {
		return nil, fmt.Errorf("reading a bootstrap: %w", err)
	}
	return bootstrap, nil
}

// HDSClient is the part of a bootstrap that makes an Envoy a client of a daemon at
// addr, as the command bootstrap writes it.
func HDSClient(addr string) (*bootstrapv3.Bootstrap, error) {
	a, err := bootstrap.New(bootstrap.Options{Address: addr})
	if err != nil {
		return nil, err
	}
	text, err := a.Overlay()
	if err != nil {
		return nil, err
	}
	return DecodeBootstrap(text)
}
