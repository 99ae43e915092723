# error: at most 10m
service "web" {
  check "a" { # here
    interval = "1h"
    tcp {}
  }
}
