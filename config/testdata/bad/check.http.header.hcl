# error: header "X-Probe": a string is not allowed: a map of names to lists, such as { "X-Probe" = ["hds"] }
service "web" {
  check "ready" {
    http {
      header = { "X-Probe" = "hds" } # here
    }
  }
}
