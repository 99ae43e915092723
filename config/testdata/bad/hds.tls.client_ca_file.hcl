# error: is not built yet
hds {
  tls {
    client_ca_file = "/etc/ca.pem" # here
  }
}
