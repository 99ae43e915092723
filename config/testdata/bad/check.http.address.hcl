# error: "127.1" is neither an IP address (without zone or port) nor a host name
service "web" {
  check "ready" {
    http {
      address = "127.1" # here
    }
  }
}
