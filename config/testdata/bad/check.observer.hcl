# error: one of auto, sidecar, node
service "web" {
  check "ready" {
    observer = "off" # here
    tcp {}
  }
}
