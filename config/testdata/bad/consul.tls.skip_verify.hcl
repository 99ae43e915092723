# error: true or false, without quotes
consul {
  tls {
    skip_verify = 1 # here
  }
}
