# error: it needs hds.tls, or hds.allow_plaintext
hds {
  listen = ["127.0.0.1:8510", "192.0.2.1:8510"] # here
}
