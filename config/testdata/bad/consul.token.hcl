# error: a string in quotes
consul {
  token = 12345 # here
}
