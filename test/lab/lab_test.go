package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// victimVariable makes the test binary a program that starts a lab, says what
// it started, and waits to be killed.
const victimVariable = "LAB_TEST_VICTIM"

func TestMain(m *testing.M) {
	AppMain()
	if os.Getenv(victimVariable) != "" {
		victim()
		return
	}
	os.Exit(m.Run())
}

func victim() {
	ctx, stop := SignalContext(context.Background())
	defer stop()
	err := os.Unsetenv(victimVariable)
	if err == nil {
		err = runVictim(ctx)
	}
	fmt.Println("victim:", err)
}

func runVictim(ctx context.Context) error {
	l, err := New(ctx, Options{})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	c, err := l.StartConsul(ctx, ConsulOptions{})
	if err != nil {
		return err
	}
	a, err := l.StartAppProcess(ctx, "app")
	if err != nil {
		return err
	}
	fmt.Println("started", l.Dir(), c.Pid(), a.Pid())
	<-ctx.Done()
	return l.Close()
}

func newLab(t *testing.T) *Lab {
	l, err := New(t.Context(), Options{Progress: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoDirExists(t, l.Dir())
	})
	return l
}

func register(t *testing.T, c *Consul, name string, port int) {
	require.NoError(t, c.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: name, Address: "127.0.0.1", Port: port,
	}))
}

func requireDNS(t *testing.T, c *Consul, name string, port int) {
	require.NoError(t, Eventually(t.Context(), 5*time.Second, func() error {
		ports, err := c.DNSPorts(t.Context(), name)
		if err == nil && (len(ports) != 1 || ports[0] != port) {
			err = fmt.Errorf("ports of %s: %v", name, ports)
		}
		return err
	}))
}

func TestConsulAnswersDNSAndForgetsInDevMode(t *testing.T) {
	c, err := newLab(t).StartConsul(t.Context(), ConsulOptions{NodeName: "n1"})
	require.NoError(t, err)
	none, err := c.DNSPorts(t.Context(), "web")
	require.NoError(t, err)
	require.Empty(t, none)
	register(t, c, "web", 1234)
	requireDNS(t, c, "web", 1234)

	require.NoError(t, c.Restart(t.Context(), syscall.SIGTERM))
	services, err := c.Client().Agent().Services()
	require.NoError(t, err)
	require.Empty(t, services)
}

func TestPersistentConsulSurvivesKill(t *testing.T) {
	c, err := newLab(t).StartConsul(t.Context(), ConsulOptions{Persistent: true, Config: `check_update_interval = "1s"`})
	require.NoError(t, err)
	register(t, c, "web", 1234)
	require.NoError(t, c.Restart(t.Context(), syscall.SIGKILL))
	requireDNS(t, c, "web", 1234)
}

func TestAClientJoinsItsServerOnAnAddressOfItsOwn(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		t.Run(fmt.Sprint("persistent=", persistent), func(t *testing.T) {
			l := newLab(t)
			server, err := l.StartConsul(t.Context(), ConsulOptions{Name: "server", Persistent: persistent})
			require.NoError(t, err)
			client, err := l.StartConsul(t.Context(), ConsulOptions{Name: "client", Server: server, Address: "127.0.0.2"})
			require.NoError(t, err)
			require.Contains(t, client.HTTPAddr(), "127.0.0.2:")
			register(t, client, "web", 1234)
			requireDNS(t, server, "web", 1234)
			requireDNS(t, client, "web", 1234)
			entries, _, err := server.Client().Health().Service("web", "", true, nil)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.Equal(t, []string{"client", "127.0.0.2"}, []string{entries[0].Node.Node, entries[0].Node.Address})
		})
	}
}

func TestAFurtherServerIsOneOfTheCluster(t *testing.T) {
	l := newLab(t)
	first, err := l.StartConsul(t.Context(), ConsulOptions{Name: "first", Persistent: true})
	require.NoError(t, err)
	second, err := l.StartConsul(t.Context(), ConsulOptions{Name: "second", Server: first, Persistent: true, Address: "127.0.0.2"})
	require.NoError(t, err)
	register(t, second, "web", 1234)
	requireDNS(t, first, "web", 1234)
	require.Equal(t, second.Client(), second.Catalog(), "a server knows the catalog itself")
	require.NoError(t, Eventually(t.Context(), time.Minute, func() error {
		peers, err := first.Client().Status().Peers()
		if err == nil && !slices.Contains(peers, second.RPCAddr()) {
			err = fmt.Errorf("the servers are %q", peers)
		}
		return err
	}))
}

func TestAClientKeepsItsChecksUntilItsDataIsRemoved(t *testing.T) {
	l := newLab(t)
	server, err := l.StartConsul(t.Context(), ConsulOptions{Name: "server", Persistent: true})
	require.NoError(t, err)
	client, err := l.StartConsul(t.Context(), ConsulOptions{Name: "client", Server: server})
	require.NoError(t, err)
	register(t, client, "web", 1234)
	require.NoError(t, client.Client().Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "c", Name: "c", ServiceID: "web", AgentServiceCheck: api.AgentServiceCheck{TTL: "1h"},
	}))
	require.NoError(t, client.Client().Agent().UpdateTTL("c", "fine", api.HealthPassing))
	require.NoError(t, client.Restart(t.Context(), syscall.SIGKILL))
	requireCheck(t, client, "c", api.HealthPassing)
	require.NoError(t, server.Restart(t.Context(), syscall.SIGKILL))
	require.NoError(t, client.WaitReady(t.Context()))
	requireCheck(t, client, "c", api.HealthPassing)

	_, err = client.Stop(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(client.DataDir()))
	require.NoError(t, client.Start())
	require.NoError(t, client.WaitReady(t.Context()))
	requireCheck(t, client, "c", "")
}

// requireCheck requires a status of an agent's check; empty is no check.
func requireCheck(t *testing.T, c *Consul, id, status string) {
	checks, err := c.Client().Agent().Checks()
	require.NoError(t, err)
	got := ""
	if check := checks[id]; check != nil {
		got = check.Status
	}
	require.Equal(t, status, got)
}

func TestConsulThatCannotStartSaysWhy(t *testing.T) {
	_, err := newLab(t).StartConsul(t.Context(), ConsulOptions{Config: `no_such_key = true`})
	require.ErrorContains(t, err, "exit status 1")
	require.ErrorContains(t, err, "no_such_key")
}

func TestEnvoyAsksForHDS(t *testing.T) {
	l := newLab(t)
	socket, err := l.SocketPath("hds.sock")
	require.NoError(t, err)
	e, err := l.StartEnvoy(t.Context(), EnvoyOptions{
		NodeID: "n1", HDSAddr: "unix://" + socket, Metadata: map[string]any{"a": "b"},
	})
	require.NoError(t, err)
	// Nobody listens: the HDS client is there, tries, and fails.
	failed := func() error {
		n, err := e.Stat(t.Context(), "hds_delegate.errors")
		if err == nil && n == 0 {
			err = fmt.Errorf("no attempt yet")
		}
		return err
	}
	require.NoError(t, Eventually(t.Context(), 5*time.Second, failed))
	require.NoError(t, e.Restart(t.Context(), syscall.SIGTERM))
	require.NoError(t, Eventually(t.Context(), 5*time.Second, failed))
}

func TestEnvoyTakesAForeignBootstrap(t *testing.T) {
	l := newLab(t)
	e, err := l.StartEnvoy(t.Context(), EnvoyOptions{
		Bootstrap: []byte(`{"node": {"id": "sidecar", "cluster": "web"}}`), HDSAddr: "127.0.0.1:1",
	})
	require.NoError(t, err)
	info, err := httpGet(t.Context(), "http://"+e.AdminAddr()+"/server_info")
	require.NoError(t, err)
	require.Contains(t, string(info), `"sidecar"`)
	flags, err := e.HealthFlags(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"consul_hds::127.0.0.1:1": "healthy"}, flags)
}

func TestKilledRunLeavesNoProcess(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			dir, pids, cmd := startVictim(t)
			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			for _, pid := range pids {
				require.NoError(t, Eventually(t.Context(), 2*time.Second, func() error {
					if err := syscall.Kill(pid, 0); err == nil {
						return fmt.Errorf("process %d lives", pid)
					}
					return nil
				}))
			}
			if sig == syscall.SIGKILL {
				require.DirExists(t, dir)
				old := time.Now().Add(-staleAge)
				require.NoError(t, os.Chtimes(dir, old, old))
				newLab(t) // sweeps
			}
			require.NoDirExists(t, dir)
		})
	}
}

func startVictim(t *testing.T) (dir string, pids []int, cmd *exec.Cmd) {
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.Len(t, fields, 4, line)
	require.Equal(t, "started", fields[0], line)
	for _, f := range fields[2:] {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, 0))
		pids = append(pids, pid)
	}
	return fields[1], pids, cmd
}

func TestLivingLabIsNotSwept(t *testing.T) {
	l := newLab(t)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(l.Dir(), old, old))
	newLab(t)
	require.DirExists(t, l.Dir())
}

func TestCloseByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := New(ctx, Options{})
	require.NoError(t, err)
	a, err := l.StartAppProcess(ctx, "app")
	require.NoError(t, err)
	cancel()
	<-a.Done()
	require.NoError(t, Eventually(t.Context(), time.Second, func() error {
		if _, err := os.Stat(l.Dir()); err == nil {
			return fmt.Errorf("%s is there", l.Dir())
		}
		return nil
	}))
	require.ErrorContains(t, a.Start(), "closed")
}

func TestPortsAreNotGivenTwice(t *testing.T) {
	a, b := newLab(t), newLab(t)
	seen := map[int]bool{}
	for range 200 {
		for _, l := range []*Lab{a, b} {
			port, err := l.Port()
			require.NoError(t, err)
			require.False(t, seen[port])
			seen[port] = true
		}
	}
}

func TestAHotRestartLeavesNothingBehind(t *testing.T) {
	l := newLab(t)
	base, err := l.Port()
	require.NoError(t, err)
	h := HotRestart{BaseID: base}
	_, err = l.StartEnvoy(t.Context(), EnvoyOptions{NodeID: "hot", HotRestart: h})
	require.NoError(t, err)
	require.FileExists(t, h.memory())
	require.NoError(t, l.Close())
	require.NoFileExists(t, h.memory())
}
