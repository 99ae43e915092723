# error: one of expire, critical, keep
checks {
  on_stale = "forget" # here
}
