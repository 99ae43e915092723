# error: hds.tls.cert_file needs hds.tls.key_file too
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file = "/etc/cert.pem" # here
  }
}
