# error: an absolute path
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file = "/etc/cert.pem"
    key_file  = "key.pem" # here
  }
}
