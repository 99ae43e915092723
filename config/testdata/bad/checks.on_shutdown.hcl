# error: one of keep, deregister, critical
checks {
  on_shutdown = "drop" # here
}
