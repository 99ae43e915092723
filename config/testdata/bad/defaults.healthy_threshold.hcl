# error: 1.5 is not allowed: a whole number
defaults {
  healthy_threshold = 1.5 # here
}
