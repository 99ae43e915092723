# error: An argument named "path" is not expected here
service "web" {
  check "ready" {
    grpc {
      path = "/ready" # here
    }
  }
}
