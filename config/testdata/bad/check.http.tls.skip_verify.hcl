# error: true or false, without quotes
service "web" {
  check "ready" {
    http {
      tls {
        skip_verify = "yes" # here
      }
    }
  }
}
