package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nomadServer signs workload identities as a Nomad server does, and shows its key
// as one: no Nomad runs here.
type nomadServer struct {
	t   *testing.T
	key *rsa.PrivateKey
	url string
}

func newNomadServer(t *testing.T) *nomadServer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	keys := map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
		"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
	}}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(keys))
	}))
	t.Cleanup(s.Close)
	return &nomadServer{t: t, key: key, url: s.URL + "/.well-known/jwks.json"}
}

// identity is a workload identity with these claims beside the usual ones.
func (s *nomadServer) identity(claims map[string]any) string {
	s.t.Helper()
	now := time.Now().Unix()
	all := map[string]any{"aud": "consul.io", "iat": now, "nbf": now, "exp": now + 3600, "sub": "global:default:consul-hds"}
	for name, value := range claims {
		all[name] = value
	}
	encode := func(part any) string {
		b, err := json.Marshal(part)
		require.NoError(s.t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := encode(map[string]string{"alg": "RS256", "kid": "1", "typ": "JWT"}) + "." + encode(all)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, digest[:])
	require.NoError(s.t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// shipped decodes a JSON file of the folder nomad.
func shipped(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("../../nomad/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// With the files of the folder nomad, the daemon's task gets a token that is
// enough, and nobody else does.
func TestTheNomadJobGetsItsToken(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	nomad := newNomadServer(t)
	var method api.ACLAuthMethod
	shipped(t, "auth-method.json", &method)
	method.Config["JWKSURL"] = nomad.url
	var rule api.ACLBindingRule
	shipped(t, "binding-rule.json", &rule)
	acl := w.client.ACL()
	_, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "consul-hds", Rules: shippedPolicy(t)}, nil)
	require.NoError(t, err)
	_, _, err = acl.RoleCreate(&api.ACLRole{Name: "consul-hds", Policies: []*api.ACLLink{{Name: "consul-hds"}}}, nil)
	require.NoError(t, err)
	_, _, err = acl.AuthMethodCreate(&method, nil)
	require.NoError(t, err)
	_, _, err = acl.BindingRuleCreate(&rule, nil)
	require.NoError(t, err)

	login := func(change map[string]any) (*api.ACLToken, error) {
		claims := map[string]any{"nomad_namespace": "default", "nomad_job_id": "consul-hds", "nomad_task": "agent"}
		for name, value := range change {
			claims[name] = value
		}
		token, _, err := acl.Login(&api.ACLLoginParams{AuthMethod: method.Name, BearerToken: nomad.identity(claims)}, nil)
		return token, err
	}
	for name, change := range map[string]map[string]any{
		"another job":       {"nomad_job_id": "web"},
		"another namespace": {"nomad_namespace": "other"},
		"another task":      {"nomad_task": "sidecar"},
		"a service":         {"nomad_task": nil, "nomad_service": "consul-hds"},
		"another audience":  {"aud": "vault.io"},
	} {
		_, err := login(change)
		assert.Error(t, err, name)
	}
	token, err := login(nil)
	require.NoError(t, err)

	// As Nomad gives it to the task: in the environment.
	w.startDaemon(quick, "CONSUL_HTTP_TOKEN="+token.SecretID)
	w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}
