# error: a number is not allowed: a string in quotes
service "web" {
  check "ready" {
    tcp {
      send    = 1 # here
      receive = ["pong"]
    }
  }
}
