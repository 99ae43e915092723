# error: 2h0m0s is not allowed: from 100ms to 1h
defaults {
  timeout = "2h" # here
}
