# error: true or false, without quotes
log_json = "true" # here
