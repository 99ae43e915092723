# error: without control characters
service "web" {
  check "ready" {
    http {
      tls {
        key_file = "/etc/web\u0000.key" # here
      }
    }
  }
}
