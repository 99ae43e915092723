# error: a whole number, without quotes
service "web" {
  check "ready" {
    grpc {
      port = "50051" # here
    }
  }
}
