# consul-hds as a system job: one daemon on every Nomad client, by the driver
# exec. README.md says what has to be there before. Run it with the place of the
# binary that `make build` made, and its checksum:
#
#   nomad job run -var binary=https://… -var checksum=sha256:… consul-hds.nomad.hcl
#
# Change: node_ids, if there are node Envoys; the port of the metrics, if it is
# taken. Keep the names of the job and of its task: the Consul binding rule
# (binding-rule.json) knows them.

variable "binary" {
  type        = string
  description = "URL of the static binary."
}

variable "checksum" {
  type        = string
  description = "Its checksum, such as sha256:…"
}

job "consul-hds" {
  type        = "system"
  datacenters = ["*"]
  priority    = 80 # before what it probes

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  # Node by node, and 30 s for each to get all its Envoys back.
  update {
    max_parallel     = 1
    stagger          = "30s"
    health_check     = "checks" # this and what follows: Nomad 1.11 and later
    min_healthy_time = "10s"
    healthy_deadline = "2m"
  }

  group "consul-hds" {
    network {
      mode = "host"

      port "metrics" {
        static = 8512
      }
    }

    # The directory of the socket, from client.hcl.
    volume "consul-hds" {
      type   = "host"
      source = "consul-hds"
    }

    # The checks live as long as their TTL (60 s) without the daemon. This never
    # waits for longer than 30 s.
    restart {
      attempts = 3
      interval = "30s"
      delay    = "2s"
      mode     = "delay"
    }

    service {
      name = "consul-hds"
      port = "metrics"

      identity {
        aud = ["consul.io"]
        ttl = "1h"
      }

      check {
        name     = "alive"
        type     = "http"
        path     = "/v1/health"
        interval = "10s"
        timeout  = "2s"

        check_restart {
          limit = 3
          grace = "30s"
        }
      }

      # Not a reason to restart: it waits for Consul, and for an address of
      # hds.listen that is not there yet.
      check {
        name     = "ready"
        type     = "http"
        path     = "/v1/ready"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "agent" {
      driver       = "exec"
      user         = "consul-hds" # owns the directory of the volume
      kill_timeout = "10s"        # the daemon ends within 4 s

      config {
        command = "local/consul-hds"
        args    = ["agent", "-config-dir", "${NOMAD_TASK_DIR}/config"]
      }

      artifact {
        source      = var.binary
        mode        = "file"
        destination = "local/consul-hds"

        options {
          checksum = var.checksum
        }
      }

      # Nomad exchanges this identity for a Consul token, and puts that into
      # CONSUL_HTTP_TOKEN, which the daemon reads. (The file secrets/consul_token
      # belongs to root, nomad #28347.) Without ACLs in Consul, remove it, and
      # the identity of the service.
      identity {
        name = "consul_default"
        aud  = ["consul.io"]
        ttl  = "1h"
      }

      consul {}

      volume_mount {
        volume      = "consul-hds"
        destination = "/run/consul-hds"
      }

      # What the job says here is new with the next allocation.
      template {
        destination   = "local/config/agent.hcl"
        change_mode   = "signal"
        change_signal = "SIGHUP"

        data = <<-EOF
          hds {
            listen   = ["unix:///run/consul-hds/hds.sock"]
            node_ids = ["node-envoy"]
          }

          admin {
            metrics_listen = "{{ env "NOMAD_ADDR_metrics" }}"
          }
        EOF
      }

      # What the Nomad variable says is reloaded whenever it changes: more of the
      # configuration, such as service blocks, over that above.
      template {
        destination   = "local/config/more.hcl"
        change_mode   = "signal"
        change_signal = "SIGHUP"

        data = <<-EOF
          {{ if nomadVarExists "nomad/jobs/consul-hds" }}
          {{ with nomadVar "nomad/jobs/consul-hds" }}{{ with .config }}{{ . }}{{ end }}{{ end }}
          {{ end }}
        EOF
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
