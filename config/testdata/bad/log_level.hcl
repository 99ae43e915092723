# error: "loud" is not allowed: one of trace, debug, info, warn, error
log_level = "loud" # here
