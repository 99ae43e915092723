# error: a string in quotes
hds {
  socket_group = 101 # here
}
