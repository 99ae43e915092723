# error: is not built yet
service "web" {
  check "ready" {
    grpc {} # here
  }
}
