# error: telemetry.dogstatsd_tags needs telemetry.dogstatsd_addr too
telemetry {
  dogstatsd_tags = ["env:prod"] # here
}
