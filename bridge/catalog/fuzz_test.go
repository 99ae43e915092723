package catalog

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// answering is an agent that gives one answer to everything.
type answering struct {
	code  int
	body  []byte
	index string
}

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Header: http.Header{"X-Consul-Index": {a.index}},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
	}, nil
}

// FuzzAnswers gives the client any answer to each of its questions: it is an
// error, or holds what the rest of the daemon relies on.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"web-1": {"Service": "web", "Port": 80, "Meta": {"hds": "http"}}, "p": {"Service": "p", "Kind": "connect-proxy", "Proxy": {"DestinationServiceID": "web-1", "DestinationServiceName": "web"}}}`,
		`{"hds:web-1": {"Node": "n1", "Name": "x", "ServiceID": "web-1", "Type": "ttl", "Status": "passing", "Output": "é\u0000"}}`,
		`{"Config": {"NodeName": "n1"}, "Member": {"Addr": "10.0.0.1"}}`, `{"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Services": []}`,
		`null`, `[]`, `{"a": null}`, `{"a": {"Service": "x", "Proxy": {"LocalServicePort": -1}, "Kind": "connect-proxy"}}`, `{"": {"Service": "x"}}`, "\xff", `{"a":{"Service":"x","Port":1e99}}`,
	} {
		f.Add(200, []byte(body), "7")
	}
	f.Add(404, []byte("unknown service"), "")
	f.Add(403, []byte("ACL not found"), "-1")
	f.Add(500, []byte("rpc error"), "99999999999999999999")
	f.Fuzz(func(t *testing.T, code int, body []byte, index string) {
		config := api.DefaultConfig()
		config.Address = "127.0.0.1:1"
		config.HttpClient = &http.Client{Transport: answering{code, body, index}}
		consul, err := api.NewClient(config)
		require.NoError(t, err)
		c := &client{raw: consul.Raw()}
		instances, checks := c.lists(t)
		dropDangling(checks, instances)
		s := &Snapshot{Instances: instances, Checks: checks}
		for id, i := range instances {
			checkInstance(t, s, id, i)
		}
		for id, check := range checks {
			require.Equal(t, id, check.ID)
			require.True(t, check.ServiceID == "" || instances[check.ServiceID] != nil)
		}
		gone, err := c.gone(t.Context(), "x")
		require.Equal(t, code == http.StatusNotFound, gone)
		require.False(t, gone && err != nil)
		_, _ = c.self(t.Context())                     // any node is as good as another
		_, _ = c.nodeServices(t.Context(), "n1", 1, 0) // so is any index
	})
}

// lists reads both lists; one that cannot be read is empty.
func (c *client) lists(t *testing.T) (map[string]*Instance, map[string]*Check) {
	t.Helper()
	instances, err := c.services(t.Context())
	if err != nil {
		require.Nil(t, instances)
	}
	checks, _, err := c.checks(t.Context())
	if err != nil {
		require.Nil(t, checks)
	}
	return instances, checks
}

// checkInstance checks what all others take for granted of an instance.
func checkInstance(t *testing.T, s *Snapshot, id string, i *Instance) {
	t.Helper()
	require.Equal(t, id, i.ID)
	require.NotEmpty(t, i.Service)
	require.Equal(t, i.Kind == KindConnectProxy, i.Proxy != nil)
	if served := s.Served(i); served != nil {
		require.Equal(t, i.Proxy.DestinationServiceID, served.ID)
	}
}
