# A machine without Nomad, 2 of 4: the service. Copy it to /etc/consul.d/web.hcl
# and `consul reload`.
#
# Change: id, name, port, and the meta, which say how the service is probed. It
# has no check here: the daemon makes it.

service {
  id   = "web-1"
  name = "web"
  port = 8080

  meta = {
    hds          = "http"
    hds_path     = "/health"
    hds_interval = "1s"
    # Where the app listens; without it, the address of the node.
    hds_address = "127.0.0.1"
  }
}
