# error: authentication of Envoys by Consul token is not built yet
hds {
  auth = "consul" # here
}
