# error: an absolute path
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file      = "/etc/cert.pem"
    key_file       = "/etc/key.pem"
    client_ca_file = "ca.pem" # here
  }
}
