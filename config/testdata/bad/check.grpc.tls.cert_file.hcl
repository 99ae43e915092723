# error: an absolute path
service "web" {
  check "ready" {
    grpc {
      tls {
        cert_file = "web.pem" # here
      }
    }
  }
}
