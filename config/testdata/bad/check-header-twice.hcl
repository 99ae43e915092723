# error: "X-Probe" is given twice
service "web" {
  check "ready" {
    http {
      header = { "X-Probe" = ["a"], "X-Probe" = ["b"] } # here
    }
  }
}
