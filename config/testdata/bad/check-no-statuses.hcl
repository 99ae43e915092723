# error: at least one status
service "web" {
  check "a" {
    http {
      expected_statuses = [] # here
    }
  }
}
