# error: a string is not allowed: a list
service "web" {
  check "ready" {
    http {
      receive = "ok" # here
    }
  }
}
