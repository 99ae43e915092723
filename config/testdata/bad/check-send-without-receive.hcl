# error: send without receive would not be sent for sure
service "web" {
  check "ready" { # here
    tcp {
      send = "ping"
    }
  }
}
