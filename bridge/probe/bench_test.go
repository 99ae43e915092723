package probe

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// many makes a snapshot of n instances.
func many(n int) *catalog.Snapshot {
	instances := make([]*catalog.Instance, n)
	for i := range instances {
		instances[i] = &catalog.Instance{
			ID: fmt.Sprintf("steady-%05d", i), Service: fmt.Sprintf("steady-%05d", i), Address: "127.0.0.1", Port: 10000 + i,
			Meta: map[string]string{"hds": "http", "hds_path": "/ready"},
		}
	}
	return snapshot(instances...)
}

// nextOf is the snapshot after one of those, with one instance changed.
func nextOf(s *catalog.Snapshot, port int) *catalog.Snapshot {
	next := *s
	next.Instances = maps.Clone(s.Instances)
	changed := *s.Instances["steady-00000"]
	changed.Port = port
	next.Instances[changed.ID] = &changed
	return &next
}

// BenchmarkDeriveOneChange is what it costs to derive the probes anew when one
// instance has changed.
func BenchmarkDeriveOneChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			snap, r := many(n), rules()
			var m Memory
			result := m.Derive(World{Snapshot: snap}, r)
			require.Len(b, result.Probes, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				snap = nextOf(snap, 20000+i%1000)
				result = m.Derive(World{Snapshot: snap}, r)
			}
		})
	}
}
