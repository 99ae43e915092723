# error: is not an IP address
service "web" {
  check "ready" {
    http {
      address = "app.example" # here
    }
  }
}
