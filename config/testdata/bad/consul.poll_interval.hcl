# error: is not a duration: a string with a number and a unit, such as
consul {
  poll_interval = 5 # here
}
