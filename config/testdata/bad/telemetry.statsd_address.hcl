# error: an IP address or host name, with a port
telemetry {
  statsd_address = "127.0.0.1" # here
}
