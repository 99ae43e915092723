# error: 0 is not allowed: from 1 to 100000
hds {
  max_streams = 0 # here
}
