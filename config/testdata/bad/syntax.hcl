# error: Invalid expression
data_dir = # here
