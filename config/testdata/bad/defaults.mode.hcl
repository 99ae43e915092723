# error: shadow mode is not built yet: leave it out or at its default, enforce
defaults {
  mode = "shadow" # here
}
