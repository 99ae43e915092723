# error: a string in quotes
consul {
  partition = true # here
}
