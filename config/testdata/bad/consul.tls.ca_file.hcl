# error: a string in quotes
consul {
  tls {
    ca_file = {} # here
  }
}
