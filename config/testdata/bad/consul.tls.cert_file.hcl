# error: consul.tls.cert_file needs consul.tls.key_file too
consul {
  tls {
    cert_file = "/etc/cert.pem" # here
  }
}
