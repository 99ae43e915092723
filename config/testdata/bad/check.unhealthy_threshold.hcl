# error: a whole number, without quotes
service "web" {
  check "ready" {
    unhealthy_threshold = "3" # here
    tcp {}
  }
}
