# error: an absolute path
data_dir = "run" # here
