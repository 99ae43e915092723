# error: 127.0.0.1:8511 is given twice, in hds.listen and admin.listen
hds {
  listen = ["127.0.0.1:8511"] # here
}
