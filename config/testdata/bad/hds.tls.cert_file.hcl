# error: is not built yet
hds {
  tls {
    cert_file = "/etc/cert.pem" # here
  }
}
