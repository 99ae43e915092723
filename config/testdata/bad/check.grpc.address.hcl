# error: unspecified
service "web" {
  check "ready" {
    grpc {
      address = "0.0.0.0" # here
    }
  }
}
