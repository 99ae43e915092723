# error: a number is not allowed: true or false
service "web" {
  check "ready" {
    tcp {
      tls {
        skip_verify = 1 # here
      }
    }
  }
}
