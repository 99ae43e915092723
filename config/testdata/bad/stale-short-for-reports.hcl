# error: less than twice hds.report_interval
checks {
  stale_after = "500ms" # here
}
