# error: a host name or an IP address
service "web" {
  check "ready" {
    http {
      tls {
        server_name = "a b" # here
      }
    }
  }
}
