# error: an absolute path
service "web" {
  check "ready" {
    http {
      tls {
        ca_file = "ca.pem" # here
      }
    }
  }
}
