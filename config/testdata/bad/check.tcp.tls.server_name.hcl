# error: a host name or an IP address
service "web" {
  check "ready" {
    tcp {
      tls {
        server_name = "*.example" # here
      }
    }
  }
}
