# error: the name of a service
service "" { # here
  check "default" {
    tcp {}
  }
}
