# error: Duplicate tls block
service "web" {
  check "ready" {
    tcp {
      tls {
        skip_verify = true
      }
      tls {} # here
    }
  }
}
