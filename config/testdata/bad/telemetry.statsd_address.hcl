# error: is not built yet
telemetry {
  statsd_address = "127.0.0.1:8125" # here
}
