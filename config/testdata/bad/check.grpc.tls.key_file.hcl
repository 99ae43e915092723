# error: a bool is not allowed: a string in quotes
service "web" {
  check "ready" {
    grpc {
      tls {
        key_file = true # here
      }
    }
  }
}
