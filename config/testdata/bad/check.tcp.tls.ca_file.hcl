# error: without control characters
service "web" {
  check "ready" {
    tcp {
      tls {
        ca_file = "/etc/ca\n.pem" # here
      }
    }
  }
}
