# error: tls without ca_file would verify nothing
service "web" {
  check "ready" { # here
    http {
      tls {}
    }
  }
}
