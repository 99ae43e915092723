package probe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHostNamesAreLookedUp(t *testing.T) {
	i := web(map[string]string{"hds": "tcp"})
	i.Address = "db.internal"
	w := World{Snapshot: snapshot(i)}
	got := Derive(w, rules(), nil)
	assert.Empty(t, got.Probes)
	assert.Empty(t, got.Problems, "it is awaited")
	assert.Equal(t, map[string]bool{"db.internal": true}, got.Names)
	assert.Equal(t, map[string]bool{"web-1": true}, got.Waiting)

	w.Names = map[string]Known[netip.Addr]{"db.internal": {Err: errors.New("no such host")}}
	got = Derive(w, rules(), nil)
	assert.Empty(t, got.Probes)
	assert.Empty(t, got.Waiting)
	require.Len(t, got.Problems, 1)
	assert.Equal(t, `address "db.internal" cannot be probed yet: no such host`, got.Problems[0].Message)

	w.Names["db.internal"] = Known[netip.Addr]{Value: netip.MustParseAddr("10.1.1.1"), Good: true, Err: errors.New("failed since")}
	got = Derive(w, rules(), nil)
	require.Len(t, got.Problems, 1, "it is told, and the address in use is kept")
	assert.Equal(t, `host name "db.internal" does not resolve any more, its last address 10.1.1.1 is probed: failed since`, got.Problems[0].Message)
	assert.Equal(t, "10.1.1.1:8080", got.Probes[0].Target.String())

	i.Address = "new.internal"
	kept := Derive(w, rules(), got.Probes)
	assert.Equal(t, got.Probes, kept.Probes, "the last good definition stands until the new name is known")
}

func TestWhatIsAHostName(t *testing.T) {
	for _, s := range []string{"a", "localhost", "db.internal", "a-b.c_d.e.", "1.example", "xn--bcher-kva.example", strings.Repeat("a", 63), strings.Repeat("abcdefg.", 31) + "abcde"} {
		assert.NoError(t, CheckAddress(s), s)
	}
	for _, s := range []string{"", ".", "1", "127.1", "0177.0.0.1", "127.000.000.001", "a..b", "-a", "a-", "a b", "a/b", "a:1", "é", "[::1]", "a\n", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa"} {
		assert.Error(t, CheckAddress(s), s)
	}
}

// authority is a certificate that can sign others.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key, block("CERTIFICATE", der)}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue makes a certificate for a key.
func (a authority) issue(t testing.TB, public, private any) (cert, key []byte) {
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "client"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, public, a.key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)
}

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	require.NoError(t, err)
	return k
}

// secured derives one probe with these TLS settings and files.
func secured(s Settings, files map[string][]byte, fileErr map[string]error) Result {
	w := World{Snapshot: snapshot(web(nil)), Files: map[string]Known[[]byte]{}}
	for name, b := range files {
		w.Files[name] = Known[[]byte]{Value: b, Good: true}
	}
	for name, err := range fileErr {
		w.Files[name] = Known[[]byte]{Err: err}
	}
	s.Kind, s.TLS = cmpKind(s.Kind), On
	return Derive(w, rules(Service{Name: "web", Checks: []Check{{Name: "c", Settings: s}}}), nil)
}

func cmpKind(k Kind) Kind {
	if k == "" {
		return TCP
	}
	return k
}

func TestTLSIsReadFromFiles(t *testing.T) {
	ca := newAuthority(t)
	priv := ecKey(t, elliptic.P521())
	cert, key := ca.issue(t, &priv.PublicKey, priv)
	s := Settings{TLSServerName: "app.example", TLSCAFile: "ca", TLSCertFile: "cert", TLSKeyFile: "key"}
	noisy := append([]byte("some text\n"), append(ca.pem, ca.pem...)...)
	got := secured(s, map[string][]byte{"ca": noisy, "cert": cert, "key": key}, nil)
	require.Empty(t, got.Problems)
	assert.Equal(t, map[string]bool{"ca": true, "cert": true, "key": true}, got.Files)
	p := got.Probes[0]
	assert.Equal(t, &TLS{ServerName: "app.example", CA: append(ca.pem, ca.pem...), Cert: cert, Key: key}, p.TLS, "written anew, without what stands between")
	for _, text := range []string{fmt.Sprintf("%v %+v %s %x %q", p.TLS, p.TLS, p.TLS.Key, p.TLS.Key, p.TLS.Key), mustJSON(t, p)} {
		assert.NotContains(t, text, string(key[40:60]))
		assert.NotContains(t, text, fmt.Sprintf("%x", key[40:60]))
	}
	assert.Equal(t, "tcp+tls 127.0.0.1:8080", p.Subject())

	other := newAuthority(t)
	again := secured(s, map[string][]byte{"ca": other.pem, "cert": cert, "key": key}, nil)
	assert.NotEqual(t, p.Cluster, again.Probes[0].Cluster, "another CA is another definition")

	got = secured(s, nil, nil)
	assert.Empty(t, got.Problems)
	assert.Len(t, got.Waiting, 1)
	assert.Len(t, got.Files, 3, "all are read at once")
}

func mustJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestTheDefaultCAServesProbesThatNameNone(t *testing.T) {
	ca := newAuthority(t)
	w := World{Snapshot: snapshot(web(map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_server_name": "web.example"})), Files: map[string]Known[[]byte]{"/ca": {Value: ca.pem, Good: true}}}
	r := rules()
	r.Defaults.TLSCAFile = "/ca"
	got := Derive(w, r, nil)
	require.Empty(t, got.Problems)
	assert.Equal(t, ca.pem, got.Probes[0].TLS.CA)
	assert.Contains(t, got.Probes[0].Subject(), "https://127.0.0.1:8080/")

	plain := one(t, snapshot(web(map[string]string{"hds": "http"})), rules())
	w.Snapshot = snapshot(web(map[string]string{"hds": "http"}))
	assert.Equal(t, plain.Cluster, Derive(w, r, nil).Probes[0].Cluster, "it says nothing of plain ones")

	w.Snapshot = snapshot(web(map[string]string{"hds": "http", "hds_tls": "true", "hds_tls_skip_verify": "TRUE"}))
	got = Derive(w, r, nil)
	require.Empty(t, got.Problems)
	assert.Equal(t, &TLS{}, got.Probes[0].TLS)
	assert.Empty(t, got.Files)
}

func TestBadTLSIsAProblem(t *testing.T) {
	ca := newAuthority(t)
	p256 := ecKey(t, elliptic.P256())
	cert, key := ca.issue(t, &p256.PublicKey, p256)
	_, foreign := ca.issue(t, &p256.PublicKey, ecKey(t, elliptic.P256()))
	p224 := ecKey(t, elliptic.P224())
	weakEC, weakECKey := ca.issue(t, &p224.PublicKey, p224)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	weakRSA, weakRSAKey := ca.issue(t, &rsaKey.PublicKey, rsaKey)
	edPub, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ed, edPEM := ca.issue(t, edPub, edKey)
	verify := Settings{TLSServerName: "x", TLSCAFile: "ca"}
	mutual := Settings{TLSSkipVerify: On, TLSCertFile: "cert", TLSKeyFile: "key"}
	files := func(cert, key []byte) map[string][]byte { return map[string][]byte{"cert": cert, "key": key} }
	for name, c := range map[string]struct {
		s     Settings
		files map[string][]byte
		want  string
	}{
		"no name":        {Settings{TLSCAFile: "ca"}, map[string][]byte{"ca": ca.pem}, "needs a server_name"},
		"no CA":          {Settings{TLSServerName: "x"}, nil, "would verify nothing"},
		"garbage":        {verify, map[string][]byte{"ca": []byte("garbage")}, "nothing in PEM form"},
		"one bad block":  {verify, map[string][]byte{"ca": append(ca.pem, []byte("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")...)}, "of 2 blocks only 1"},
		"cut block":      {verify, map[string][]byte{"ca": append(ca.pem, ca.pem[:100]...)}, "of 2 blocks only 1"},
		"bad DER":        {verify, map[string][]byte{"ca": append(ca.pem, block("CERTIFICATE", []byte("x"))...)}, "block 2 is no certificate"},
		"a key as CA":    {verify, map[string][]byte{"ca": key}, "only CERTIFICATE blocks"},
		"no key":         {Settings{TLSSkipVerify: On, TLSCertFile: "cert"}, nil, "need each other"},
		"foreign key":    {mutual, files(cert, foreign), "do not match"},
		"encrypted key":  {mutual, files(cert, block("ENCRYPTED PRIVATE KEY", []byte("x"))), "encrypted"},
		"encrypted key2": {mutual, files(cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"DEK-Info": "x,y"}, Bytes: []byte("x")})), "encrypted"},
		"no key in file": {mutual, files(cert, cert), "no private key"},
		"P-224":          {mutual, files(weakEC, weakECKey), "P-256, P-384, P-521"},
		"RSA 1024":       {mutual, files(weakRSA, weakRSAKey), "RSA of at least 2048"},
		"Ed25519":        {mutual, files(ed, edPEM), "P-256, P-384, P-521"},
	} {
		t.Run(name, func(t *testing.T) {
			got := secured(c.s, c.files, nil)
			assert.Empty(t, got.Probes)
			require.Len(t, got.Problems, 1)
			assert.Contains(t, got.Problems[0].Message, c.want)
			assert.NotContains(t, got.Problems[0].Message, "PRIVATE KEY-----")
		})
	}
	got := secured(verify, nil, map[string]error{"ca": errors.New("no such file")})
	assert.Equal(t, `check "c": tls ca_file: no such file`, got.Problems[0].Message)
	ec := append(block("EC PARAMETERS", []byte{6, 8}), key...)
	assert.Empty(t, secured(mutual, files(cert, ec), nil).Problems, "as openssl writes them")
}

// TestCertificatesThatOnlyGoReads: each was Envoy's death.
func TestCertificatesThatOnlyGoReads(t *testing.T) {
	ca := newAuthority(t)
	b, _ := pem.Decode(ca.pem)
	v3 := []byte{0xa0, 3, 2, 1, 2}
	require.Equal(t, 1, bytes.Count(b.Bytes, v3))
	for name, der := range map[string][]byte{
		"version 1 with extensions": bytes.Replace(b.Bytes, v3, []byte{0xa0, 3, 2, 1, 0}, 1),
		"version 2 with extensions": bytes.Replace(b.Bytes, v3, []byte{0xa0, 3, 2, 1, 1}, 1),
		"a time without seconds":    withoutSeconds(t, b.Bytes),
	} {
		if _, err := x509.ParseCertificate(der); err != nil {
			continue // this Go does not read it either
		}
		got := secured(Settings{TLSServerName: "x", TLSCAFile: "ca"}, map[string][]byte{"ca": block("CERTIFICATE", der)}, nil)
		assert.Empty(t, got.Probes, name)
		require.Len(t, got.Problems, 1, name)
		assert.Contains(t, got.Problems[0].Message, "block 1", name)
	}
	key, err := rsa.GenerateMultiPrimeKey(rand.Reader, 3, 2048) //nolint:staticcheck // its kind is what is refused
	require.NoError(t, err)
	cert, keyPEM := ca.issue(t, &key.PublicKey, key)
	got := secured(Settings{TLSSkipVerify: On, TLSCertFile: "cert", TLSKeyFile: "key"}, map[string][]byte{"cert": cert, "key": keyPEM}, nil)
	require.Len(t, got.Problems, 1)
	assert.Contains(t, got.Problems[0].Message, "of 3 primes")
}

// withoutSeconds takes the seconds from the first time in a certificate, and
// mends the lengths around it.
func withoutSeconds(t *testing.T, der []byte) []byte {
	t.Helper()
	var cert struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	_, err := asn1.Unmarshal(der, &cert)
	require.NoError(t, err)
	content := cert.TBS.Bytes
	at := bytes.Index(content, []byte{asn1.TagUTCTime, 13})
	require.Positive(t, at)
	validity := at - 2
	short := bytes.Clone(content[:at])
	short[validity+1] -= 2
	short = append(short, asn1.TagUTCTime, 11)
	short = append(short, content[at+2:at+12]...)
	short = append(short, content[at+14:]...)
	cert.TBS = asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagSequence, IsCompound: true, Bytes: short}
	out, err := asn1.Marshal(cert)
	require.NoError(t, err)
	return out
}

func TestHeaders(t *testing.T) {
	many := map[string][]string{}
	for i := range 51 {
		many[fmt.Sprint("x-", i)] = []string{"v"}
	}
	for name, h := range map[string]map[string][]string{
		"letters, digits": {"a b": {"v"}, "": {"v"}},
		"set by Envoy":    {"Host": {"v"}},
		"is set by":       {"TE": {"v"}},
		"at most 50":      many,
		"set twice":       {"X-a": {"1"}, "x-A": {"2"}},
		"no value":        {"x": nil},
		"the value is not allowed: visible ASCII": {"x": {"a\r\nb"}},
		"at most 4096":      {"x": {strings.Repeat("a", 4097)}},
		"header name \"é\"": {"é": {"v"}},
	} {
		err := CheckHeaders(h)
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), name)
	}
	for _, own := range ownHeaders {
		assert.Error(t, CheckHeaders(map[string][]string{own: {"x"}}))
	}
	assert.NoError(t, CheckHeaders(map[string][]string{"X-Probe": {"a", "b \t~"}, "empty": {""}, "!#$%&'*+-.^_`|~": {"100%"}}))
}

func TestPayloads(t *testing.T) {
	for s, want := range map[string]Payload{"PING\r\n": "PING\r\n", "hex:0a0B": "\n\v", "hex": "hex", "é": "é"} {
		got, err := ParsePayload(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, s := range []string{"", "hex:", "hex:0", "hex:0x0a", "hex:zz", "\xff", strings.Repeat("a", 65537), "hex:" + strings.Repeat("00", 65537)} {
		_, err := ParsePayload(s)
		assert.Error(t, err, "%.20q", s)
	}
	assert.ErrorContains(t, CheckPayloads(Settings{Kind: HTTP, Method: "GET", Body: "x"}), "only with POST, PUT, PATCH, OPTIONS")
	assert.NoError(t, CheckPayloads(Settings{Kind: HTTP, Method: "PUT", Body: "x"}))
	half := Payload(strings.Repeat("a", 513))
	assert.ErrorContains(t, CheckPayloads(Settings{Kind: HTTP, Receive: []Payload{half, half}}), "at most 1024")
	assert.NoError(t, CheckPayloads(Settings{Kind: TCP, Send: "x", Receive: []Payload{half, half}}))
	assert.ErrorContains(t, CheckPayloads(Settings{Kind: TCP, Send: "x"}), "receive")
	a := &Probe{CheckID: "c", Settings: Settings{Kind: TCP, Send: "\xff"}}
	b := &Probe{CheckID: "c", Settings: Settings{Kind: TCP, Send: "\xfe"}}
	assert.NotEqual(t, clusterName(a), clusterName(b), "bytes that are no text are told apart")
}

func TestGRPC(t *testing.T) {
	p := one(t, snapshot(web(map[string]string{"hds": "gRPC", "hds_grpc_service": "shop.Cart"})), rules())
	assert.Equal(t, GRPC, p.Settings.Kind)
	assert.Equal(t, "shop.Cart", p.Settings.GRPCService)
	assert.Equal(t, "127.0.0.1:8080", p.Settings.Host)
	assert.Equal(t, "grpc shop.Cart of 127.0.0.1:8080", p.Subject())
	assert.Equal(t, "Envoy HDS: grpc 8080", p.Title())
}
