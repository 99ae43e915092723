# error: true or false, without quotes
service "web" {
  check "ready" {
    http {
      http2 = "true" # here
    }
  }
}
