# error: it needs hds.tls, or hds.allow_plaintext
hds {
  listen = ["[::]:8510"] # here
}
