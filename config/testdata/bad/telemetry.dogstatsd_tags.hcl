# error: a tag is name:value
telemetry {
  dogstatsd_addr = "127.0.0.1:8125"
  dogstatsd_tags = ["env:prod", "canary"] # here
}
