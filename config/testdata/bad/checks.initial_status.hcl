# error: one of critical, warning, passing, none
checks {
  initial_status = "maintenance" # here
}
