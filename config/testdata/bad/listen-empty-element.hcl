# error: an empty text in the list
hds {
  listen = [""] # here
}
