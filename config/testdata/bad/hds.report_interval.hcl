# error: "500" is not a duration: a string with a number and a unit, such as
hds {
  report_interval = "500" # here
}
