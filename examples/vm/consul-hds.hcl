# A machine without Nomad, 3 of 4: the daemon. Copy it to
# /etc/consul-hds.d/consul-hds.hcl, and run the daemon by ../consul-hds.service.
# 4 of 4 is the node Envoy: ../envoy-plain.yaml.
#
# Change: remove token_file if Consul has no ACLs. ../agent.hcl has all that can
# be set.

consul {
  token_file = "/etc/consul-hds.d/token"
}

hds {
  node_ids = ["node-envoy"]
}
