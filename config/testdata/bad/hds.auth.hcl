# error: one of none, consul
hds {
  auth = "mtls" # here
}
