# error: from 1 to 65535
service "web" {
  check "ready" {
    http {
      port = 0 # here
    }
  }
}
