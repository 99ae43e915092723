# error: socket path "run/dsd.socket" is not allowed
telemetry {
  dogstatsd_addr = "unix://run/dsd.socket" # here
}
