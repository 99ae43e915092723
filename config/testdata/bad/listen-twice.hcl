# error: is given twice
hds {
  listen = ["127.0.0.1:8510", "localhost:8510"] # here
}
