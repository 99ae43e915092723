# Configuration of consul-hds, which reads all .hcl and .json files of this
# directory. Everything is at its default: Consul's agent at 127.0.0.1:8500, no
# ACLs, and Connect sidecars as the only Envoys that probe. To change that, take
# the # away. Then:
#
#   consul-hds validate /etc/consul-hds.d
#   systemctl reload consul-hds    # or restart, where the log asks for it
#
# All that can be set is in docs/config.md and examples/agent.hcl, which the
# packages put into /usr/share/doc/consul-hds.

# # With ACLs. This file can be read by all users, so the token has one of its own:
# #   install -o root -g consul-hds -m 0640 TOKEN /etc/consul-hds.d/token
# consul {
#   token_file = "/etc/consul-hds.d/token"
# }

# # Envoys that probe for services without a sidecar.
# hds {
#   node_ids = ["node-envoy"]
# }
