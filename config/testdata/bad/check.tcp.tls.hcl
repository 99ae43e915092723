# error: is not built yet
service "web" {
  check "ready" {
    tcp {
      tls {} # here
    }
  }
}
