# error: TLS needs a server_name to verify
service "web" {
  check "ready" { # here
    ca_file = "/etc/ca.pem"
    grpc {
      tls {}
    }
  }
}
