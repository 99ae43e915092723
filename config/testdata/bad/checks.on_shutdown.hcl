# error: is not built yet
checks {
  on_shutdown = "deregister" # here
}
