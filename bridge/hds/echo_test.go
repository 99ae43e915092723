package hds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnEchoIsWhatAReportSays: else it would be of no use to the packer. The report is
// held to a real Envoy's by the tests of the load tool.
func TestAnEchoIsWhatAReportSays(t *testing.T) {
	r := newReporting(t, 3)
	probes := r.session.probes()
	require.Len(t, probes, 3)
	for _, p := range probes {
		assert.Contains(t, string(r.reports[0]), string(appendEcho(nil, p)), p.Cluster)
	}
}
