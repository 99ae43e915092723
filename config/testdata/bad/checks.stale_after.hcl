# error: must be less than checks.ttl
checks {
  stale_after = "60s" # here
}
