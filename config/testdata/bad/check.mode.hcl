# error: one of enforce, shadow
service "web" {
  check "ready" {
    mode = "dry" # here
    tcp {}
  }
}
