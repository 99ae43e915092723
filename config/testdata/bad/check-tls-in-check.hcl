# error: Blocks of type "tls" are not expected here
service "web" {
  check "ready" {
    tcp {}
    tls {} # here
  }
}
