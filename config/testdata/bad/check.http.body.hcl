# error: after hex: an even number of hex digits
service "web" {
  check "ready" {
    http {
      method = "POST"
      body   = "hex:0a0" # here
    }
  }
}
