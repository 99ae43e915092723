# error: only one of token and token_file may be set
consul {
  token      = "secret"
  token_file = "/etc/token" # here
}
