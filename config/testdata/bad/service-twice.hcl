# error: The first service "web" is at
service "web" {
  check "default" {
    tcp {}
  }
}
service "web" { # here
  check "default" {
    tcp {}
  }
}
