# error: this is no address of an agent
consul {
  address = "http://a:b@10.0.0.1:8500" # here
}
