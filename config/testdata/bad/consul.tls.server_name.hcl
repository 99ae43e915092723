# error: a string in quotes
consul {
  tls {
    server_name = 7 # here
  }
}
