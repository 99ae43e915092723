# error: at least one payload
service "web" {
  check "ready" {
    tcp {
      receive = [] # here
    }
  }
}
