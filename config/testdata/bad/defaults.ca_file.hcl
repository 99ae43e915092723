# error: an absolute path
defaults {
  ca_file = "ca.pem" # here
}
