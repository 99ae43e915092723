# error: from 10s to 24h
checks {
  ttl = "9s" # here
}
