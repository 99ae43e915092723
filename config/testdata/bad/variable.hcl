# error: Variables may not be used here
data_dir = var.dir # here
