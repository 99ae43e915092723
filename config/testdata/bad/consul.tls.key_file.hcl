# error: consul.tls.key_file needs consul.tls.cert_file too
consul {
  tls {
    key_file = "/etc/key.pem" # here
  }
}
