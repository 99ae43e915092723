# error: a string in quotes
consul {
  namespace = 1 # here
}
