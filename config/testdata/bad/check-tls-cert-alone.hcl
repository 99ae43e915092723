# error: tls cert_file and key_file need each other
service "web" {
  check "ready" { # here
    tcp {
      tls {
        cert_file   = "/etc/web.pem"
        skip_verify = true
      }
    }
  }
}
