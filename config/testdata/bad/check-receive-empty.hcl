# error: in the list: a payload of 0 bytes
service "web" {
  check "ready" {
    tcp {
      receive = ["pong", ""] # here
    }
  }
}
