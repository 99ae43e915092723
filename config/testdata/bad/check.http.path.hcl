# error: it must begin with /
service "web" {
  check "ready" {
    http {
      path = "ready" # here
    }
  }
}
