"""What the system tests and the quickstart share: a private PostgreSQL, a receiver, certificates, the daemon, a proxy.

Standard library and psycopg2 only. Everything listens on 127.0.0.1 and ends with the process that made it.
"""

from .answers import Answer
from .ca import CertificateAuthority
from .cluster import Cluster, wait_for
from .daemon import Outboxd, binary_path, run_command
from .notify import NotifySocket
from .proxy import Proxy
from .receiver import Receiver, Request
from .signature import verify_signature

__all__ = [
    "Answer",
    "CertificateAuthority",
    "Cluster",
    "NotifySocket",
    "Outboxd",
    "Proxy",
    "Receiver",
    "Request",
    "binary_path",
    "run_command",
    "verify_signature",
    "wait_for",
]
