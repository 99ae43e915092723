# The configuration of the agent with every attribute at its default. Leave out
# what you do not change. docs/config.md says more about each of them.

log_level = "info"            # trace, debug, info, warn, error
log_json  = false             # each log line as a JSON object
data_dir  = "/run/consul-hds" # lock file; nothing else must survive

# The local Consul agent. The CONSUL_* variables of Consul's own tools are read
# too; what is set here wins over them.
consul {
  address       = "127.0.0.1:8500" # also http://, https:// and unix://
  token         = ""               # better a file
  token_file    = ""               # read again when it changes
  namespace     = ""               # Consul Enterprise
  partition     = ""               # Consul Enterprise
  node_name     = ""               # empty: asked of the agent
  node_address  = ""               # empty: asked of the agent
  poll_interval = "1s"             # pause between two safety polls

  tls {
    ca_file     = ""
    cert_file   = ""
    key_file    = ""
    server_name = ""
    skip_verify = false
  }
}

# The Envoys of this node.
hds {
  listen          = ["unix:///run/consul-hds/hds.sock"] # and/or host:port
  socket_mode     = "0660"                              # with auth "none", who may connect may claim to be any Envoy
  socket_group    = ""                                  # empty: left alone
  node_ids        = []                                  # globs: which Envoys are node Envoys
  report_interval = "500ms"                             # pause between two reports of an Envoy
  max_streams     = 256
  allow_plaintext = false  # TCP addresses off loopback need tls or this
  auth            = "none" # "consul": streams need a token, x-consul-token

  # For TCP addresses only. Absolute paths, read again when the files change.
  tls {
    cert_file          = ""
    key_file           = ""
    client_ca_file     = ""
    allowed_identities = [] # globs of URI or DNS names; empty: any certificate of the client CA
  }
}

# For probes that set no such attribute of their own.
defaults {
  interval            = "1s"
  timeout             = "1s"
  healthy_threshold   = 1
  unhealthy_threshold = 2
  observer            = "auto"    # sidecar, node
  mode                = "enforce" # "shadow": probe and show, write nothing to Consul
  ca_file             = ""        # absolute path; for probes with tls that name none
}

# What becomes of the Consul checks.
checks {
  ttl            = "60s"
  initial_status = "critical" # passing, warning, none
  stale_after    = "10s"
  on_stale       = "expire" # critical, keep
  adopt_timeout  = "20s"
  orphan_grace   = "60s"
  on_shutdown    = "keep" # deregister, critical
}

# The HTTP interface for people and scripts.
admin {
  listen         = "127.0.0.1:8511"
  metrics_listen = "" # only metrics and health; may be off loopback
  enable_debug   = false
}

# Where metrics are sent to. Prometheus fetches them at /metrics, always.
telemetry {
  statsd_address = "" # host:port
  dogstatsd_addr = "" # host:port, or unix:// and the path of a socket
  dogstatsd_tags = [] # "name:value"
}

# Probes for services whose registrations cannot say so themselves:
#
# service "web-*" {
#   check "ready" {
#     interval = "2s"
#     http {
#       path = "/ready"
#     }
#   }
# }
