# error: TLS without a CA would verify nothing
service "web" {
  check "ready" { # here
    http {
      tls {}
    }
  }
}
