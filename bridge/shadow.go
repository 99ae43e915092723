package bridge

import (
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/logging"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// shadow sees to it that a probe in shadow mode has no check, and logs what its
// check would be.
func (r *ring) shadow(t *tracked, before health.Status) {
	if t.written {
		r.logger.Info("probe is in shadow mode now, removing its check", naming(t.probe)...)
		r.writer.Withdraw(t.probe.CheckID)
	}
	if t.verdict.Status != before {
		r.logger.Info("check would change", append(naming(t.probe), logging.Known("from", before.Word(), "to", t.verdict.Status.Word(),
			"output", t.verdict.Output, "phase", t.verdict.Phase, "node_id", t.verdict.Observer, "mode", probe.Shadow)...)...)
	}
	t.want, t.written = checks.Want{}, false
}
