# error: An argument named "reportinterval" is not expected here
hds {
  reportinterval = "1s" # here
}
