# error: one of auto, sidecar, node
defaults {
  observer = "all" # here
}
