# error: an absolute path
service "web" {
  check "ready" {
    tcp {
      tls {
        cert_file = "./web.pem" # here
      }
    }
  }
}
