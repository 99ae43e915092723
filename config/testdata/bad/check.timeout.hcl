# error: from 100ms to 1h
service "web" {
  check "ready" {
    timeout = "1ms" # here
    tcp {}
  }
}
