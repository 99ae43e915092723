package probe

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// minRSA is the shortest RSA key that Envoy's TLS library takes, in bits.
const minRSA = 2048

// errWaiting says that a name or a file was not looked up yet.
var errWaiting = errors.New("not looked up yet")

// secure gives the probe its TLS, if it wants any. Envoy is sent what the files
// hold, never their paths: a file that is missing or garbage would be its death
// (facts/envoy-hds.md 0b).
func (d *deriver) secure(p *Probe) error {
	s := p.Settings
	if s.TLS != On {
		if s.TLSServerName != "" || s.TLSSkipVerify == On || s.TLSCertFile != "" || s.TLSKeyFile != "" {
			return errors.New("attributes of TLS are set, but TLS is not: set hds_tls = \"true\" in meta, or tls {} in the config")
		}
		return nil
	}
	if err := CheckTLS(s); err != nil {
		return err
	}
	t := &TLS{ServerName: s.TLSServerName}
	var err1, err2 error
	if s.TLSSkipVerify != On {
		t.CA, err1 = d.pem(s.TLSCAFile, "ca_file", readCA)
	}
	if s.TLSCertFile != "" {
		t.Cert, t.Key, err2 = d.client(s)
	}
	p.TLS = t
	return cmp.Or(err1, err2)
}

// client is the client certificate and its key.
func (d *deriver) client(s Settings) (cert []byte, key Secret, err error) {
	cert, err1 := d.pem(s.TLSCertFile, "cert_file", readCerts)
	key, err2 := d.pem(s.TLSKeyFile, "key_file", readKey)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if rsaKey, ok := pair.PrivateKey.(*rsa.PrivateKey); ok && err == nil && len(rsaKey.Primes) != 2 {
		return nil, nil, fmt.Errorf("tls key_file %q: an RSA key of %d primes is not allowed: of two", s.TLSKeyFile, len(rsaKey.Primes))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tls cert_file %q and key_file %q do not match, or the key cannot be read", s.TLSCertFile, s.TLSKeyFile)
	}
	return cert, key, nil
}

// CheckTLS says whether the TLS attributes of settings whose TLS is on go with
// one another. The CA of the defaults has to be filled in already.
func CheckTLS(s Settings) error {
	verify := s.TLSSkipVerify != On
	switch {
	case verify && s.TLSCAFile == "":
		return errors.New("TLS without a CA would verify nothing: set ca_file in the config, in defaults or in the check; or skip_verify (meta hds_tls_skip_verify)")
	case verify && s.TLSServerName == "":
		return errors.New("TLS needs a server_name to verify (meta hds_tls_server_name), unless skip_verify is set")
	case (s.TLSCertFile == "") != (s.TLSKeyFile == ""):
		return errors.New("tls cert_file and key_file need each other")
	}
	return nil
}

// pem is what a file holds, once it was read and found to be right.
func (d *deriver) pem(path, what string, read func([]byte) ([]byte, error)) ([]byte, error) {
	f := look(&d.out.files, d.world.Files, path)
	switch {
	case !f.there:
		return nil, errWaiting
	case f.Err != nil:
		return nil, fmt.Errorf("tls %s: %w", what, f.Err)
	}
	b, err := read(f.Value)
	if err != nil {
		return nil, fmt.Errorf("tls %s %q: %w", what, path, err)
	}
	return b, nil
}

// readCA reads a bundle of certificates. One bad block in it is Envoy's death,
// although Go's own readers pass over it (facts/envoy-hds.md 0b).
func readCA(b []byte) ([]byte, error) {
	_, clean, err := certificates(b)
	return clean, err
}

// readCerts reads a client certificate and those that lead from it to a CA.
func readCerts(b []byte) ([]byte, error) {
	certs, clean, err := certificates(b)
	if err != nil {
		return nil, err
	}
	return clean, checkKeyType(certs[0].PublicKey)
}

// Certificates reads the certificates of a PEM file as strictly as those of
// probes: no block is passed over.
func Certificates(b []byte) ([]*x509.Certificate, error) {
	out, _, err := certificates(b)
	return out, err
}

// certificates reads the certificates of a PEM file, each by itself, and writes
// them anew, without what may stand between them.
func certificates(b []byte) (out []*x509.Certificate, clean []byte, err error) {
	blocks, err := pemBlocks(b)
	if err != nil {
		return nil, nil, err
	}
	for n, block := range blocks {
		if block.Type != "CERTIFICATE" {
			return nil, nil, fmt.Errorf("block %d is a %s: only CERTIFICATE blocks are allowed", n+1, clip(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("block %d is no certificate: %w", n+1, err)
		}
		if err := checkStrict(c); err != nil {
			return nil, nil, fmt.Errorf("block %d: %w", n+1, err)
		}
		out = append(out, c)
		clean = append(clean, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	return out, clean, nil
}

// checkStrict refuses what Go reads in a certificate and Envoy's TLS library does
// not, which would be Envoy's death: extensions before version 3, which Go passes
// over, and times that are not in DER's one form.
func checkStrict(c *x509.Certificate) error {
	var parts []asn1.RawValue // of the TBSCertificate, RFC 5280 4.1
	if _, err := asn1.Unmarshal(c.RawTBSCertificate, &parts); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	validity := 3
	for i, p := range parts {
		switch {
		case p.Class != asn1.ClassContextSpecific:
		case p.Tag == 0 && i == 0:
			validity++ // the version stands before all else
		case p.Tag == 3 && c.Version != 3:
			return fmt.Errorf("a certificate of version %d with extensions is not allowed: they are of version 3", c.Version)
		}
	}
	var times []asn1.RawValue
	if validity >= len(parts) {
		return errors.New("it has no validity")
	}
	if _, err := asn1.Unmarshal(parts[validity].FullBytes, &times); err != nil {
		return fmt.Errorf("its validity cannot be read: %w", err)
	}
	forms := map[int]string{asn1.TagUTCTime: "YYMMDDHHMMSSZ", asn1.TagGeneralizedTime: "YYYYMMDDHHMMSSZ"}
	for _, at := range times {
		if form := forms[at.Tag]; len(at.Bytes) != len(form) || !bytes.HasSuffix(at.Bytes, []byte("Z")) {
			return fmt.Errorf("a time of its validity is %q: not in the form %s", clip(string(at.Bytes)), form)
		}
	}
	return nil
}

// pemBlocks reads the blocks of a PEM file; pem.Decode alone passes over what
// it cannot read.
func pemBlocks(b []byte) (out []*pem.Block, err error) {
	begun := bytes.Count(b, []byte("-----BEGIN"))
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, block)
	}
	switch {
	case begun == 0:
		return nil, errors.New("it holds nothing in PEM form")
	case len(out) != begun:
		return nil, fmt.Errorf("of %d blocks only %d are in PEM form", begun, len(out))
	}
	return out, nil
}

// readKey reads a private key. Its errors never tell of the key.
func readKey(b []byte) ([]byte, error) {
	blocks, err := pemBlocks(b)
	if err != nil {
		return nil, err
	}
	for _, block := range blocks {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, errors.New("the key is encrypted: it has to be in the clear")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil
		}
	}
	return nil, errors.New("it holds no private key")
}

// checkKeyType says whether Envoy takes a client certificate of this key.
func checkKeyType(key any) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSA {
			return nil
		}
	case *ecdsa.PublicKey:
		if slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, k.Curve) {
			return nil
		}
	}
	return fmt.Errorf("its key is not allowed: RSA of at least %d bits, or P-256, P-384, P-521", minRSA)
}

// digest stands for the TLS in the definition's hash: other files are another
// definition, and no key goes into a name.
func (t *TLS) digest() string {
	if t == nil {
		return ""
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(t.ServerName), t.CA, t.Cert, t.Key} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// completeTLS gives settings that verify and name no CA the one of the defaults,
// and clears those whose TLS is switched off.
func completeTLS(s, defaults Settings) Settings {
	if s.TLSSkipVerify == Not {
		s.TLSSkipVerify = ""
	}
	switch {
	case s.TLS == Not:
		s.TLS, s.TLSServerName, s.TLSSkipVerify, s.TLSCAFile, s.TLSCertFile, s.TLSKeyFile = "", "", "", "", "", ""
	case s.TLS == On && s.TLSSkipVerify != On:
		s.TLSCAFile = cmp.Or(s.TLSCAFile, defaults.TLSCAFile)
	}
	return s
}
