package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bootstrap"
	"github.com/consul-hds/consul-hds/config"
)

// TestTheConfigurationSaysWhatABootstrapNeeds takes authentication and TLS from
// the daemon's configuration.
func TestTheConfigurationSaysWhatABootstrapNeeds(t *testing.T) {
	withTLS := config.HDS{Listen: []string{"10.0.0.1:8510"}, TLS: config.HDSTLS{CertFile: "/cert.pem"}}
	withClients := withTLS
	withClients.TLS.ClientCAFile = "/clients.pem"
	onSocket := withClients
	onSocket.Listen = []string{"unix:///run/hds.sock"}
	ca := bootstrap.TLS{CAFile: "/ca.pem"}
	for name, c := range map[string]struct {
		hds   config.HDS
		flags bootstrapFlags
		want  string // part of the error; empty for none
	}{
		"TLS without a CA":        {withTLS, bootstrapFlags{}, "-ca-file is needed"},
		"TLS":                     {withTLS, bootstrapFlags{tls: ca}, ""},
		"without a certificate":   {withClients, bootstrapFlags{tls: ca}, "-cert-file and -key-file are needed"},
		"a socket has no TLS":     {onSocket, bootstrapFlags{}, ""},
		"TLS at another address":  {onSocket, bootstrapFlags{addr: "10.0.0.2:8510"}, "-ca-file is needed"},
		"a socket beside TLS":     {withClients, bootstrapFlags{addr: "unix:///run/hds.sock"}, ""},
		"TLS flags with a socket": {onSocket, bootstrapFlags{tls: ca}, "TLS is for TCP addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.flags.addition(c.hds)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestTheTokenIsReusedWhereTheDaemonWantsOne(t *testing.T) {
	consul := config.HDS{Listen: []string{"unix:///run/hds.sock"}, Auth: "consul"}
	a, err := (&bootstrapFlags{}).addition(consul)
	require.NoError(t, err)
	_, err = a.AddTo([]byte(`{"node": {"id": "a"}}`))
	require.ErrorContains(t, err, "carries no token")
	_, err = a.Overlay()
	assert.Error(t, err)

	consul.Auth = "none"
	a, err = (&bootstrapFlags{}).addition(consul)
	require.NoError(t, err)
	_, err = a.Overlay()
	assert.NoError(t, err)
}
