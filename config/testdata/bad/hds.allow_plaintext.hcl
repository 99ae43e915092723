# error: true or false, without quotes
hds {
  allow_plaintext = "yes" # here
}
