# error: is not built yet
service "web" {
  check "ready" {
    ca_file = "/etc/ca.pem" # here
    tcp {}
  }
}
