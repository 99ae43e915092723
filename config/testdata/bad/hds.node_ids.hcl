# error: a string is not allowed: a list
hds {
  node_ids = "ingress-*" # here
}
