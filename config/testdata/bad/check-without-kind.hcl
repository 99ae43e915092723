# error: exactly one of the blocks http, tcp and grpc is needed
service "web" {
  check "a" { # here
    interval = "1s"
  }
}
