package lab

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// newNamespace skips the test where the machine allows no namespaces.
func newNamespace(t *testing.T, l *Lab) *Namespace {
	ns, err := l.NewNamespace()
	if errors.Is(err, ErrNoNamespaces) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return ns
}

func TestAnAppInANamespaceIsReachedFromWithinOnly(t *testing.T) {
	l := newLab(t)
	ns := newNamespace(t, l)
	a, err := l.StartAppProcessIn(t.Context(), ns, "hidden")
	require.NoError(t, err)
	get := func(from *Namespace) error {
		_, err := httpDoIn(t.Context(), from, http.MethodGet, "http://"+a.Addr()+"/health")
		return err
	}
	require.NoError(t, get(ns))
	require.ErrorContains(t, get(nil), "refused")
	require.ErrorContains(t, get(newNamespace(t, l)), "refused", "namespaces are apart")
	require.NoError(t, a.SetHealth(t.Context(), 503))
	require.ErrorContains(t, get(ns), "503")
	require.NoError(t, a.Kill())
	require.ErrorContains(t, get(ns), "refused")
	require.NoError(t, a.Start())
	require.NoError(t, a.WaitReady(t.Context()), "it comes back in the namespace")
	require.ErrorContains(t, get(nil), "refused")
}

func TestARelayLeadsIntoANamespace(t *testing.T) {
	l := newLab(t)
	ns := newNamespace(t, l)
	a, err := l.StartAppProcessIn(t.Context(), ns, "hidden")
	require.NoError(t, err)
	r, err := l.StartRelay(ns, a.Addr())
	require.NoError(t, err)
	get := func() error { _, err := httpGet(t.Context(), "http://"+a.Addr()+"/"); return err }
	require.NoError(t, get())
	idle, err := net.Dial("tcp", a.Addr())
	require.NoError(t, err)

	require.NoError(t, a.Kill())
	_, err = idle.Read(make([]byte, 1))
	require.Error(t, err, "the end of the app is told")
	require.Error(t, get(), "nobody listens there")
	r.Close()
	require.ErrorContains(t, get(), "refused")
}
