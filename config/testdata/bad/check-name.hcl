# error: 1 to 64 characters of a-z
service "web" {
  check "Ready" { # here
    tcp {}
  }
}
