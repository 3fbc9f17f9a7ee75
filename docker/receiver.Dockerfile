# The demonstration's receiver: makes its own authority and certificate, checks signatures, prints a line per request.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-psycopg2 openssl \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 10002 -g 10002 /trust
COPY tests/support/outboxtest /app/outboxtest
WORKDIR /app
USER 10002:10002
EXPOSE 8443
HEALTHCHECK --interval=2s --timeout=3s --retries=15 \
  CMD ["/usr/bin/python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8443), 2)"]
ENTRYPOINT ["/usr/bin/python3", "-m", "outboxtest.receiver"]
CMD ["--host", "0.0.0.0", "--port", "8443", "--make-certificate", "/trust", "--name", "receiver", "--secret-file", "/run/secrets/signing_secret"]
