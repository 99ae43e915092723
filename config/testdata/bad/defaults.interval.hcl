# error: 10ms is not allowed: from 100ms to 1h
defaults {
  interval = "10ms" # here
}
