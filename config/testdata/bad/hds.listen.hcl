# error: an IP address or localhost, with a port
hds {
  listen = ["hds.example:8510"] # here
}
