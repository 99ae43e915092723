# error: an absolute path
defaults {
  ca_file = "ca.pem" # here
}
service "web" {
  check "ready" {
    tcp {
      tls {
        server_name = "db"
      }
    }
  }
}
