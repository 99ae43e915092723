package probe

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// A probe may have its address of one source and its port of another: a problem
// is told of the one that is at fault.
func TestAProblemIsOfTheSourceAtFault(t *testing.T) {
	at := func(address string, port int) *catalog.Instance {
		i := web(nil)
		i.Address, i.Port = address, port
		return i
	}
	names := map[string]Known[netip.Addr]{"gone.example": {Err: assert.AnError}}
	for name, c := range map[string]struct {
		meta map[string]string
		inst *catalog.Instance
		want string
	}{
		"the registration's port, beside meta's address": {map[string]string{"hds": "tcp", "hds_address": "10.0.0.2"}, at("10.0.0.1", -82), SourceConsul},
		"no port, beside meta's address":                 {map[string]string{"hds": "tcp", "hds_address": "10.0.0.2"}, at("10.0.0.1", 0), SourceConsul},
		"the registration's address, beside meta's port": {map[string]string{"hds": "tcp", "hds_port": "81"}, at("not a host", 80), SourceConsul},
		"meta's address": {map[string]string{"hds": "tcp", "hds_address": "gone.example"}, at("10.0.0.1", 80), SourceMeta},
	} {
		t.Run(name, func(t *testing.T) {
			c.inst.Meta = c.meta
			got := Derive(World{Snapshot: snapshot(c.inst), Names: names}, rules(), nil)
			require.Len(t, got.Problems, 1)
			assert.Equal(t, c.want, got.Problems[0].Source, got.Problems[0].Message)
		})
	}
}
