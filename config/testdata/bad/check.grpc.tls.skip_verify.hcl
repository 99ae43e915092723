# error: a list is not allowed: true or false
service "web" {
  check "ready" {
    grpc {
      tls {
        skip_verify = [true] # here
      }
    }
  }
}
