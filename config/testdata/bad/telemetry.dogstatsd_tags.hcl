# error: is not built yet
telemetry {
  dogstatsd_tags = ["a:b"] # here
}
