# error: at least one address
hds {
  listen = [] # here
}
