# error: it must be a loopback address
admin {
  listen = "0.0.0.0:8511" # here
}
