# For the configuration of every Nomad client, beside what is there. It offers
# the directory of the daemon's socket to jobs. The directory has to exist before
# Nomad starts (README.md, step 1).

client {
  host_volume "consul-hds" {
    path      = "/var/lib/consul-hds"
    read_only = false
  }
}
