# error: from 0s to 24h
checks {
  orphan_grace = "-1s" # here
}
