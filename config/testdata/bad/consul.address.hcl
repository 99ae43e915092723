# error: this is no address of an agent
consul {
  address = "ftp://10.0.0.1" # here
}
