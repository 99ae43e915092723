# error: an absolute path
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file = "cert.pem" # here
    key_file  = "/etc/key.pem"
  }
}
