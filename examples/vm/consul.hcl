# A machine without Nomad, 1 of 4: the Consul client agent. Copy it to
# /etc/consul.d/consul.hcl.
#
# Change: datacenter, retry_join. The daemon asks for nothing special; data_dir
# has to outlive restarts, as it does with every agent.

datacenter = "dc1"
data_dir   = "/opt/consul"
bind_addr  = "{{ GetPrivateIP }}"
retry_join = ["10.0.0.10"]
