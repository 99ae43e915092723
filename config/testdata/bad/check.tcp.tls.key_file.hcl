# error: an absolute path
service "web" {
  check "ready" {
    tcp {
      tls {
        key_file = "web.key" # here
      }
    }
  }
}
