# error: one of GET, HEAD
service "web" {
  check "ready" {
    http {
      method = "CONNECT" # here
    }
  }
}
