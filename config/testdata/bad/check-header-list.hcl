# error: a list is not allowed: a map of names to lists
service "web" {
  check "ready" {
    http {
      header = ["X-Probe"] # here
    }
  }
}
