# error: "99" is not a status or range of statuses
service "web" {
  check "ready" {
    http {
      expected_statuses = ["200-299", 99] # here
    }
  }
}
