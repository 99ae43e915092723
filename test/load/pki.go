package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/consul-hds/consul-hds/bridge/hds"
)

// writeTLS writes a certificate for both ends, which is its own CA, and its key
// into a folder.
func writeTLS(dir string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "load"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &private.PublicKey, private)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
}

func readTLS(dir string) (cert, key []byte, err error) {
	cert, err1 := os.ReadFile(filepath.Join(dir, "cert.pem"))
	key, err2 := os.ReadFile(filepath.Join(dir, "key.pem"))
	return cert, key, errors.Join(err1, err2)
}

// serverTLS is mutual TLS as the daemon has it.
func serverTLS(dir string) (*tls.Config, error) {
	cert, key, err := readTLS(dir)
	if err != nil {
		return nil, err
	}
	return hds.ListenerTLS{ClientCA: cert, Cert: cert, Key: key}.Config()
}

// clientTLS is the other end.
func clientTLS(dir string) (*tls.Config, error) {
	cert, key, err := readTLS(dir)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}, err
}
