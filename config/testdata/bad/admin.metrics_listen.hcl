# error: is not a listen address
admin {
  metrics_listen = ":9102" # here
}
