# error: is not built yet
defaults {
  ca_file = "/etc/ca.pem" # here
}
