# error: An argument named "send" is not expected here
service "web" {
  check "ready" {
    http {
      send = "ping" # here
    }
  }
}
