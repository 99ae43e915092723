# error: without control characters
consul {
  node_name = "a\u0000b" # here
}
