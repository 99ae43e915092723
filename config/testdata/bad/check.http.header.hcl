# error: is not built yet
service "web" {
  check "ready" {
    http {
      header = { "X-Probe" = ["hds"] } # here
    }
  }
}
