# error: true or false, without quotes
admin {
  enable_debug = "on" # here
}
