# error: is not built yet
telemetry {
  dogstatsd_addr = "127.0.0.1:8125" # here
}
