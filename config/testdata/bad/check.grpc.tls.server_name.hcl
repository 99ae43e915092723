# error: a host name or an IP address
service "web" {
  check "ready" {
    grpc {
      tls {
        server_name = "https://app" # here
      }
    }
  }
}
