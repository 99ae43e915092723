# error: less than three times hds.report_interval
checks {
  stale_after = "90s"
  ttl         = "100s" # here
}
hds {
  report_interval = "40s"
}
