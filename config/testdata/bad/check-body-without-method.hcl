# error: a body cannot be sent with method GET
service "web" {
  check "ready" { # here
    http {
      body = "ping"
    }
  }
}
