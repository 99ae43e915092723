# error: socket path "hds.sock" is not allowed
hds {
  listen = ["unix://hds.sock"] # here
}
