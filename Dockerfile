# The image of consul-hds: its static binary, its configuration and nothing else.
#
#   make release-snapshot
#   docker build --platform linux/amd64 -t consul-hds .
#
# It is run beside the Consul agent, in the network of the host, with a directory
# for the socket that the Envoys mount too and that USER may write to:
#
#   docker run --network host -v /var/lib/consul-hds:/run/consul-hds consul-hds
#
# There are no CA certificates: whom to trust is said by files that you mount. Name
# that of a Consul with https in consul.tls.ca_file (or SSL_CERT_FILE, for a bundle of
# public CAs); probes with TLS name theirs in any case. There is no /etc/group either:
# hds.socket_group takes a number.

FROM scratch

ARG TARGETPLATFORM
ARG VERSION
ARG REVISION

LABEL org.opencontainers.image.title="consul-hds" \
      org.opencontainers.image.description="Envoy health checks as Consul checks" \
      org.opencontainers.image.url="https://github.com/consul-hds/consul-hds" \
      org.opencontainers.image.source="https://github.com/consul-hds/consul-hds" \
      org.opencontainers.image.documentation="https://github.com/consul-hds/consul-hds#readme" \
      org.opencontainers.image.licenses="MPL-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY dist/${TARGETPLATFORM}/consul-hds /consul-hds
COPY LICENSE /LICENSE
COPY release/package/consul-hds.hcl /etc/consul-hds.d/consul-hds.hcl

USER 8510:8510

# What metrics_listen of the block admin is set to in the examples; it is off by default.
EXPOSE 8512

ENTRYPOINT ["/consul-hds"]
CMD ["agent", "-config-dir", "/etc/consul-hds.d"]
