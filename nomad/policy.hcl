# The Consul ACL policy of the daemon: the least that it needs, here for a
# service "web" with a sidecar. Add two blocks for each service that is probed.
# `node "n1"` in place of `node_prefix ""` is enough for the daemon of one node.

service "web" {
  policy = "write"
}
service "web-sidecar-proxy" {
  policy = "read"
}
node_prefix "" {
  policy = "read"
}
