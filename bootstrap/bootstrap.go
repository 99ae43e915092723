// Package bootstrap makes Envoys HDS clients of the daemon, by what it adds to
// their bootstraps: hds_config and the static cluster that it leads to. It is
// pure: it reads no file and connects to nothing.
package bootstrap

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ClusterName is the name of the static cluster of the daemon. A cluster of
// this name, and an hds_config that leads to it, are ours to replace.
const ClusterName = "consul_hds"

// tokenHeader carries the ACL token of an Envoy, to Consul's xDS and to us.
const tokenHeader = "x-consul-token"

// maxNodeID is what the daemon takes.
const maxNodeID = 1024

// Options of an Addition.
type Options struct {
	// Address is where Envoy reaches the daemon: unix:// and the path of a
	// socket, or host:port. A host name is looked up by Envoy; localhost is
	// 127.0.0.1, as where the daemon listens.
	Address string
	// NodeID becomes the node.id of the bootstrap; empty keeps the one it has.
	NodeID string
	TLS    TLS
	// Token is sent as x-consul-token, where the daemon has hds.auth =
	// "consul"; empty sends none.
	Token string
	// ReuseToken sends the token that the bootstrap carries for Consul's xDS.
	ReuseToken bool
}

// TLS is how Envoy talks to a TCP listener of the daemon; the zero value is
// plain text. The files are absolute paths as Envoy sees them: it reads them,
// once, when it starts.
type TLS struct {
	// CAFile verifies the daemon's certificate. Without it Envoy would verify
	// nothing, hence the rest needs it.
	CAFile string
	// CertFile and KeyFile are Envoy's own.
	CertFile, KeyFile string
	// ServerName is a host name or an IP address that the daemon's certificate
	// must have; empty is the host of the address.
	ServerName string
}

// Addition is what makes an Envoy an HDS client of the daemon. It does not
// change, and is safe for concurrent use.
type Addition struct {
	options  Options
	endpoint endpoint
	tls      object // the transport socket; nil for plain text
}

// New checks the options.
func New(o Options) (*Addition, error) {
	e, err := parseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	a := &Addition{options: o, endpoint: e}
	if o.TLS != (TLS{}) {
		if a.tls, err = transportSocket(o.TLS, e); err != nil {
			return nil, err
		}
	}
	if o.NodeID != "" {
		if err := checkNodeID(o.NodeID); err != nil {
			return nil, err
		}
	}
	if o.Token != "" && o.ReuseToken {
		return nil, errors.New("the token is either the bootstrap's own or another one, not both")
	}
	return a, checkToken(o.Token)
}

// ExposesToken says whether a token leaves the node unencrypted.
func (a *Addition) ExposesToken() bool {
	return a.sendsToken() && a.tls == nil && !a.endpoint.local
}

func (a *Addition) sendsToken() bool { return a.options.Token != "" || a.options.ReuseToken }

// Overlay is the addition alone, one line of JSON for Envoy's --config-yaml,
// which Envoy merges into the bootstrap of its -c. As everybody sees the
// arguments of a process, it is an error if a token is asked for.
func (a *Addition) Overlay() ([]byte, error) {
	if a.sendsToken() {
		return nil, errors.New("an overlay must not hold a token, because everybody sees the arguments of a process: complete the whole bootstrap instead")
	}
	overlay := object{
		"hds_config":       a.hdsConfig(""),
		"static_resources": object{"clusters": []any{a.cluster()}},
	}
	if a.options.NodeID != "" {
		overlay["node"] = object{"id": a.options.NodeID}
	}
	return encode(overlay, "")
}

// AddTo completes a bootstrap in JSON or YAML, and returns it as JSON with its
// keys in order. All else in it stays as it is. What an earlier Addition has
// added is replaced, so that adding twice is adding once; an hds_config that
// leads elsewhere is an error, because an Envoy has only one. Errors never
// hold the text of the bootstrap's values but for node.id.
func (a *Addition) AddTo(bootstrap []byte) ([]byte, error) {
	doc, err := decode(bootstrap)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(object) error{a.setNode, a.setConfig, a.setCluster} {
		if err := step(doc); err != nil {
			return nil, err
		}
	}
	return encode(doc, "  ")
}

// setNode gives the node its id. That of a bootstrap made by Consul stays: by
// another one neither Consul nor the daemon would know the proxy.
func (a *Addition) setNode(doc object) error {
	node, err := child(doc, "node")
	if err != nil {
		return err
	}
	id, isText := node["id"].(string)
	want := a.options.NodeID
	switch {
	case node["id"] != nil && !isText:
		return errors.New("node.id of the bootstrap is not a text")
	case id == "" && want == "":
		return errors.New("the bootstrap has no node.id, by which the daemon knows an Envoy: -node-id gives it one")
	case want == "":
		return checkNodeID(id)
	case id != "" && id != want && madeByConsul(doc):
		return fmt.Errorf("the bootstrap is Consul's, for the proxy %q, which must keep its node.id: as %q neither Consul nor the daemon would know it", id, want)
	}
	node["id"] = want
	return nil
}

// setConfig sets hds_config.
func (a *Addition) setConfig(doc object) error {
	old, err := child(doc, "hds_config")
	if err != nil {
		return err
	}
	if len(old) > 0 && lookup(old, "grpc_services", "envoy_grpc", "cluster_name") != ClusterName {
		return fmt.Errorf("the bootstrap has an hds_config that does not lead to the cluster %s: an Envoy has only one, so remove it first", ClusterName)
	}
	token := a.options.Token
	if a.options.ReuseToken {
		if token = consulToken(doc); token == "" {
			return errors.New("the bootstrap carries no token for Consul that could be reused")
		}
		if err := checkToken(token); err != nil {
			return err
		}
	}
	return set(doc, "hds_config", a.hdsConfig(token))
}

// setCluster puts the daemon's cluster behind all others.
func (a *Addition) setCluster(doc object) error {
	resources, err := child(doc, "static_resources")
	if err != nil {
		return err
	}
	clusters := []any{}
	for _, c := range elements(resources["clusters"]) {
		if lookup(c, "name") != ClusterName {
			clusters = append(clusters, c)
		}
	}
	resources["clusters"] = append(clusters, a.cluster())
	return nil
}

// madeByConsul says whether `consul connect envoy` made a bootstrap: it always
// writes the header for the token, whether there is one or not.
func madeByConsul(doc object) bool {
	_, ok := consulMetadata(doc)
	return ok
}

// consulToken is the token that a bootstrap carries for Consul's xDS.
func consulToken(doc object) string {
	value, _ := consulMetadata(doc)
	return value
}

func consulMetadata(doc object) (value string, ok bool) {
	metadata := lookup(doc, "dynamic_resources", "ads_config", "grpc_services", "initial_metadata")
	for _, m := range elements(metadata) {
		key, _ := lookup(m, "key").(string)
		if strings.EqualFold(key, tokenHeader) {
			value, _ := lookup(m, "value").(string)
			return value, true
		}
	}
	return "", false
}

func checkNodeID(id string) error {
	if len(id) > maxNodeID || strings.ContainsFunc(id, unicode.IsControl) {
		return fmt.Errorf("node.id %.80q is not allowed: no control characters, at most %d bytes", id, maxNodeID)
	}
	return nil
}

// checkToken says whether Envoy can send a token. It reads initial_metadata as a
// format string, and ends when that is bad; yet it sends the text as it is, so
// that %% would not become %.
func checkToken(token string) error {
	for _, r := range token {
		if r <= ' ' || r > '~' || r == '%' {
			return errors.New("the token is not one line of visible ASCII without %")
		}
	}
	return nil
}
