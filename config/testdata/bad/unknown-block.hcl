# error: Blocks of type "probes" are not expected here
probes {} # here
