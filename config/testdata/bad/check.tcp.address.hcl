# error: multicast
service "web" {
  check "ready" {
    tcp {
      address = "224.0.0.1" # here
    }
  }
}
