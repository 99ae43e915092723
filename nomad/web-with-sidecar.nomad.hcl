# A sample: a service in a bridge-mode group, whose app listens on the loopback
# of its network namespace. Its Connect sidecar is the only one that can probe
# it, and does so for consul-hds.
#
# To do the same to a job of yours, take over what is marked "hds:", five places
# in all.

# hds: what `consul-hds bootstrap -overlay` prints. Envoy merges it over the
# bootstrap that Nomad lets Consul make.
locals {
  hds_overlay = <<-EOF
    {
      "hds_config": {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [
          {
            "envoy_grpc": {
              "cluster_name": "consul_hds"
            }
          }
        ]
      },
      "static_resources": {
        "clusters": [
          {
            "name": "consul_hds",
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": {
              "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {
                  "http2_protocol_options": {
                    "connection_keepalive": {
                      "interval": "10s",
                      "timeout": "5s"
                    }
                  }
                }
              }
            },
            "load_assignment": {
              "cluster_name": "consul_hds",
              "endpoints": [
                {
                  "lb_endpoints": [
                    {
                      "endpoint": {
                        "address": {
                          "pipe": {
                            "path": "/run/consul-hds/hds.sock"
                          }
                        }
                      }
                    }
                  ]
                }
              ]
            }
          }
        ]
      }
    }
  EOF
}

job "web" {
  type        = "service"
  datacenters = ["*"]

  group "web" {
    network {
      mode = "bridge"
    }

    # hds: the directory of the daemon's socket, from client.hcl.
    volume "consul-hds" {
      type      = "host"
      source    = "consul-hds"
      read_only = true
    }

    service {
      name = "web"
      port = "8080"

      # hds: what to probe.
      meta {
        hds      = "http"
        hds_path = "/"
      }

      identity {
        aud = ["consul.io"]
        ttl = "1h"
      }

      connect {
        sidecar_service {}

        sidecar_task {
          # hds: the directory, never the socket alone: a mounted socket is dead
          # after the next restart of the daemon. Nomad 1.8 and later.
          volume_mount {
            volume      = "consul-hds"
            destination = "/run/consul-hds"
            read_only   = true
          }

          # hds: these args replace those that Nomad would give, all of them, so
          # they are repeated here; the last two are ours.
          config {
            args = [
              "-c", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
              "-l", "${meta.connect.log_level}",
              "--concurrency", "${meta.connect.proxy_concurrency}",
              "--disable-hot-restart",
              "--config-yaml", local.hds_overlay,
            ]
          }
        }
      }
    }

    task "app" {
      driver = "docker"

      config {
        image   = "python:3-alpine"
        command = "python3"
        args    = ["-m", "http.server", "8080", "--bind", "127.0.0.1"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
