package lab

import (
	"encoding/json"
	"fmt"

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

// HDSClient is the part of a bootstrap that makes the lab's Envoys clients of a
// daemon at addr: what other bootstraps are to have as well, since with this one
// all the end-to-end tests are run.
func HDSClient(addr string) (*bootstrapv3.Bootstrap, error) {
	client, err := hdsClient(addr)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(client)
	if err != nil {
		return nil, fmt.Errorf("writing a bootstrap: %w", err)
	}
	return DecodeBootstrap(text)
}
