# error: an empty text in the list
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file          = "/etc/cert.pem"
    key_file           = "/etc/key.pem"
    client_ca_file     = "/etc/ca.pem"
    allowed_identities = ["spiffe://dc1/*", ""] # here
  }
}
