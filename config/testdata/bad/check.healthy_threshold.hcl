# error: 0 is not allowed: from 1 to 1000
service "web" {
  check "ready" {
    healthy_threshold = 0 # here
    tcp {}
  }
}
