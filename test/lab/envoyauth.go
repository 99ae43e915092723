package lab

import "github.com/consul-hds/consul-hds/bootstrap"

// HDSAuth is how an Envoy proves to the daemon who it is. The zero value proves
// nothing.
type HDSAuth struct {
	// Token goes along as metadata x-consul-token.
	Token string
	TLS   bootstrap.TLS
}
