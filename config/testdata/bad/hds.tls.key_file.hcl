# error: is not built yet
hds {
  tls {
    key_file = "/etc/key.pem" # here
  }
}
