# error: is not built yet
service "web" {
  check "ready" {
    mode = "shadow" # here
    tcp {}
  }
}
