# error: An argument named "service" is not expected here
service "web" {
  check "ready" {
    tcp {
      service = "db" # here
    }
  }
}
