# error: a number is not a duration: a string with a number and a unit, such as
service "web" {
  check "ready" {
    interval = 1 # here
    tcp {}
  }
}
