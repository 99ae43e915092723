# error: one of enforce, shadow
defaults {
  mode = "dry" # here
}
