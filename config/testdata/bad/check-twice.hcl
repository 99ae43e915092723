# error: The first check "a" is at
service "web" {
  check "a" {
    tcp {}
  }
  check "a" { # here
    tcp {}
  }
}
