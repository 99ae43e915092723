# error: is not built yet
service "web" {
  check "ready" {
    http {
      receive = ["ok"] # here
    }
  }
}
