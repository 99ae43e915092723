package bridge

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFilesOfTheListenersAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	c := HDSTLSConfig{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"), ClientCAFile: filepath.Join(dir, "ca.pem")}
	put := func(path string, b []byte) { require.NoError(t, os.WriteFile(path, b, 0o600)) }
	require.ErrorIs(t, CheckListenerTLS(c), os.ErrNotExist, "without files it does not start")
	cert, key := makePair(t, time.Now().Add(time.Hour))
	put(c.CertFile, cert)
	put(c.KeyFile, key)
	put(c.ClientCAFile, cert)
	require.NoError(t, CheckListenerTLS(c))
	l, err := newListenerTLS(c)
	require.NoError(t, err)
	first := l.current.Load()
	changed, err := l.load()
	require.NoError(t, err)
	assert.False(t, changed)

	put(c.CertFile, []byte("half wri"))
	changed, err = l.load()
	require.Error(t, err)
	assert.False(t, changed)
	assert.Same(t, first, l.current.Load(), "the last good set goes on")
	require.ErrorContains(t, l.problem(time.Now()), "goes on")

	next, nextKey := makePair(t, time.Now().Add(time.Minute))
	put(c.CertFile, next)
	_, err = l.load()
	require.ErrorContains(t, err, "cert_file and key_file", "half of a pair is none")
	put(c.KeyFile, nextKey)
	changed, err = l.load()
	require.NoError(t, err)
	assert.True(t, changed)
	assert.NotSame(t, first, l.current.Load())
	require.NoError(t, l.problem(time.Now()))
	require.ErrorContains(t, l.problem(time.Now().Add(time.Hour)), "has expired")

	require.NoError(t, os.Remove(c.ClientCAFile))
	require.NoError(t, syscall.Mkfifo(c.ClientCAFile, 0o600))
	_, err = l.load()
	require.ErrorContains(t, err, "no regular file")
}

// makePair makes a certificate that signed itself, and its key.
func makePair(t *testing.T, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, private.Public(), private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
