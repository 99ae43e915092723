# error: at most 10m
defaults {
  interval = "1h" # here
}
