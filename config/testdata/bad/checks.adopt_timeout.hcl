# error: from 1s to 1h
checks {
  adopt_timeout = "0s" # here
}
