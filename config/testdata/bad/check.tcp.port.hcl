# error: from 1 to 65535
service "web" {
  check "ready" {
    tcp {
      port = 70000 # here
    }
  }
}
