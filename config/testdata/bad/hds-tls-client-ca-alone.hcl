# error: hds.tls.client_ca_file needs hds.tls.cert_file too
hds {
  tls {
    client_ca_file = "/etc/ca.pem" # here
  }
}
