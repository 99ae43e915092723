# error: is not built yet
service "web" {
  check "ready" {
    http {
      http2 = true # here
    }
  }
}
