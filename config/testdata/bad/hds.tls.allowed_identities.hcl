# error: is not built yet
hds {
  tls {
    allowed_identities = ["spiffe://*"] # here
  }
}
