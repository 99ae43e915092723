# error: a string in quotes
consul {
  token_file = [] # here
}
