# error: a list is not allowed: a string in quotes
service "web" {
  check "ready" {
    http {
      tls {
        cert_file = ["/etc/web.pem"] # here
      }
    }
  }
}
