package lab

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

func TestWhatIsSeenOfConsul(t *testing.T) {
	l := newLab(t)
	c, err := l.StartConsul(t.Context(), ConsulOptions{})
	require.NoError(t, err)
	spent, err := c.CPUTime()
	require.NoError(t, err)
	require.Positive(t, spent)
	resident, err := c.Resident()
	require.NoError(t, err)
	require.Greater(t, resident, 1<<20)

	right := c.Sample(map[string]string{"serfHealth": api.HealthPassing})
	wrong := c.Sample(map[string]string{"serfHealth": api.HealthCritical, "none": api.HealthPassing})
	time.Sleep(10 * sampleEvery)
	require.NoError(t, c.Kill())
	time.Sleep(10 * sampleEvery)
	seen := right.Stop()
	require.Positive(t, seen.Count)
	require.Positive(t, seen.Away)
	require.Empty(t, seen.Wrong)
	require.Subset(t, wrong.Stop().Wrong, []WrongStatus{{"serfHealth", api.HealthPassing}, {"none", ""}})
	_, err = c.CPUTime()
	require.ErrorContains(t, err, c.Name())
	_, err = c.Resident()
	require.ErrorContains(t, err, c.Name())
}

func TestAProxyCountsWrites(t *testing.T) {
	l := newLab(t)
	c, err := l.StartConsul(t.Context(), ConsulOptions{})
	require.NoError(t, err)
	p, err := l.StartProxy(c)
	require.NoError(t, err)
	client, err := api.NewClient(&api.Config{Address: p.Addr()})
	require.NoError(t, err)
	register := func(id string) error {
		return client.Agent().CheckRegister(&api.AgentCheckRegistration{
			ID: id, Name: id, AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: api.HealthPassing},
		})
	}
	require.NoError(t, register("one"))
	before, err := c.CheckIndexes(t.Context())
	require.NoError(t, err)
	p.OnWrite(func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusTeapot); return true })
	require.ErrorContains(t, register("two"), "418")
	checks, err := c.Client().Agent().Checks()
	require.NoError(t, err)
	require.NotContains(t, checks, "two")
	p.OnWrite(nil)
	require.Equal(t, map[string]int{"PUT /v1/agent/check/register": 2}, p.Writes())
	p.Reset()
	require.NoError(t, client.Agent().UpdateTTL("one", "", api.HealthCritical))
	require.Equal(t, map[string]int{"PUT /v1/agent/check/update/one": 1}, p.Writes())
	require.NoError(t, Eventually(t.Context(), 5*time.Second, func() error {
		after, err := c.CheckIndexes(t.Context())
		if err == nil && after["one"] == before["one"] {
			err = fmt.Errorf("the index is still %d", before["one"])
		}
		return err
	}))
	p.Close()
	require.Error(t, register("three"))
}
