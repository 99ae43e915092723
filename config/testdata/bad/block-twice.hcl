# error: The first hds block is at
hds {}
hds {} # here
