# error: 1001 is not allowed: from 1 to 1000
defaults {
  unhealthy_threshold = 1001 # here
}
