# error: an absolute path
service "web" {
  check "ready" {
    ca_file = "ca.pem" # here
    tcp {}
  }
}
