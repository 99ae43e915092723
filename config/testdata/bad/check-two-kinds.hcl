# error: exactly one of http, tcp and grpc
service "web" {
  check "a" {
    http {}
    tcp {} # here
  }
}
