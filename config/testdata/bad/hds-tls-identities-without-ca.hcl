# error: hds.tls.allowed_identities needs hds.tls.client_ca_file too
hds {
  listen = ["127.0.0.1:8510"]
  tls {
    cert_file          = "/etc/cert.pem"
    key_file           = "/etc/key.pem"
    allowed_identities = ["spiffe://dc1/*"] # here
  }
}
