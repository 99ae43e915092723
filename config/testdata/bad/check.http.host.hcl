# error: a host name or address with an optional port
service "web" {
  check "ready" {
    http {
      host = "a b" # here
    }
  }
}
