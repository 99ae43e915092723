package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAppBehaves(t *testing.T) {
	a, err := newLab(t).StartApp()
	require.NoError(t, err)
	get := func() error { _, err := httpGet(t.Context(), "http://"+a.Addr()+"/health"); return err }
	behave := func(query string) error {
		_, err := httpDo(t.Context(), http.MethodPost, "http://"+a.Addr()+"/behave?"+query)
		return err
	}
	require.NoError(t, get())
	a.SetStatus(503)
	require.ErrorContains(t, get(), "503")
	require.NoError(t, behave("status=204"))
	require.NoError(t, get())
	require.ErrorContains(t, behave("status=99"), "400")
	require.ErrorContains(t, behave("hang=perhaps"), "400")
	require.ErrorContains(t, behave("hangs=true"), "400")
	require.EqualValues(t, 3, a.Hits())

	require.NoError(t, behave("health=503&delay=1ms"))
	require.ErrorContains(t, get(), "503")
	_, err = httpGet(t.Context(), "http://"+a.Addr()+"/")
	require.NoError(t, err, "/health alone is bad")
	a.SetHealth(0)

	require.NoError(t, behave("hang=true"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = httpGet(ctx, "http://"+a.Addr()+"/")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, behave("hang=false"))
	require.NoError(t, get())

	a.Close()
	require.ErrorContains(t, get(), "refused")
	require.NoError(t, a.Open())
	require.NoError(t, get())
}

func TestAnAppCallsItselfByItsName(t *testing.T) {
	a, err := newLab(t).StartNamedApp("web-1")
	require.NoError(t, err)
	resp, err := http.Get("http://" + a.Addr())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "web-1", resp.Header.Get(ServedBy))
}

// The second app finds its port taken.
func TestATwinIsRefusedAndTellsWhy(t *testing.T) {
	a, err := newLab(t).StartAppProcess(t.Context(), "app")
	require.NoError(t, err)
	said, code, err := a.Twin(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, said, "address already in use")
}

// Replace changes what is started next, and not what runs.
func TestAReplacedProgramIsStartedNext(t *testing.T) {
	a, err := newLab(t).StartAppProcess(t.Context(), "app")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "other")
	require.NoError(t, WriteProgram(program, []byte("#!/bin/sh\necho other\nexit 7\n")))
	a.Replace(program)
	said, code, err := a.Twin(t.Context())
	require.NoError(t, err)
	require.Equal(t, "other\n7", fmt.Sprint(said, code))
	select {
	case <-a.Done():
		t.Fatal("the app has ended")
	default:
	}
	require.NoError(t, a.Kill())
	require.NoError(t, a.Start())
	code, err = a.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, code)
}

func TestTCPAppCloses(t *testing.T) {
	a, err := newLab(t).StartTCPApp()
	require.NoError(t, err)
	dial := func() (net.Conn, error) { return net.Dial("tcp", a.Addr()) }
	conn, err := dial()
	require.NoError(t, err)
	_, err = fmt.Fprintln(conn, "you")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello you\n", line)

	idle, err := dial()
	require.NoError(t, err)
	require.NoError(t, Eventually(t.Context(), time.Second, func() error {
		if a.Hits() != 2 {
			return fmt.Errorf("%d connections", a.Hits())
		}
		return nil
	}))
	a.Close()
	_, err = idle.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = dial()
	require.ErrorContains(t, err, "refused")
	require.NoError(t, a.Open())
	conn, err = dial()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestAppProcessIsKilledAndRestarted(t *testing.T) {
	a, err := newLab(t).StartAppProcess(t.Context(), "web-1")
	require.NoError(t, err)
	get := func() error { _, err := httpGet(t.Context(), "http://"+a.Addr()+"/health"); return err }
	require.NoError(t, get())
	require.NoError(t, a.SetStatus(t.Context(), 500))
	require.ErrorContains(t, get(), "500")
	require.NoError(t, a.Kill())
	require.NoError(t, a.Kill())
	require.ErrorContains(t, get(), "refused")
	require.NoError(t, a.Start())
	require.NoError(t, a.WaitReady(t.Context()))
	require.NoError(t, get())
	require.ErrorContains(t, a.Start(), "running")
}
