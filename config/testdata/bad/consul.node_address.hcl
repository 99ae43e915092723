# error: an unspecified, multicast or broadcast address
consul {
  node_address = "0.0.0.0" # here
}
