# error: an octal mode of at most 0777
hds {
  socket_mode = "0888" # here
}
