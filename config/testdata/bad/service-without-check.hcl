# error: has no check block
service "web" {} # here
