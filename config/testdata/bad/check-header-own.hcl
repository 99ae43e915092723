# error: header "Host" is not allowed: it is set by Envoy
service "web" {
  check "ready" {
    http {
      header = { "Host" = ["web"] } # here
    }
  }
}
