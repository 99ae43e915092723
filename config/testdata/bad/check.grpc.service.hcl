# error: valid UTF-8 without control characters
service "web" {
  check "ready" {
    grpc {
      service = "a\nb" # here
    }
  }
}
