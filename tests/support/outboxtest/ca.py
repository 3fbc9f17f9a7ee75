"""A certificate authority of our own, made with the openssl command."""

import datetime
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

CONFIGURATION = """
[ca]
default_ca = here
[here]
dir = {directory}
database = {directory}/index.txt
new_certs_dir = {directory}/issued
certificate = {directory}/ca.pem
private_key = {directory}/ca.key
rand_serial = yes
default_md = sha256
policy = anything
unique_subject = no
copy_extensions = none
[anything]
commonName = supplied
[req]
distinguished_name = name
prompt = no
[name]
CN = outboxd test root
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
"""


@dataclass(frozen=True)
class Certificate:
    """Paths of the chain (leaf first) and of its private key."""

    chain_path: str
    key_path: str


def _openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stdout}")


def _key(path):
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
    os.chmod(path, 0o600)


class CertificateAuthority:
    """`path` is what `tls.ca_file` points at."""

    def __init__(self, directory=None):
        self._own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="outboxd-ca-")
        self.path = os.path.join(self.directory, "ca.pem")
        self._config = os.path.join(self.directory, "ca.cnf")
        self._count = 0
        os.makedirs(os.path.join(self.directory, "issued"), exist_ok=True)
        with open(self._config, "w", encoding="utf-8") as out:
            out.write(CONFIGURATION.format(directory=self.directory))
        open(os.path.join(self.directory, "index.txt"), "a", encoding="utf-8").close()
        _key(os.path.join(self.directory, "ca.key"))
        _openssl("req", "-x509", "-config", self._config, "-extensions", "root", "-new", "-days", "3650", "-key",
                 os.path.join(self.directory, "ca.key"), "-out", self.path)

    def issue(self, dns=("localhost",), ip=("127.0.0.1",), common_name="localhost", begins_in=-3600.0, ends_in=86400.0,
              usage="serverAuth"):
        """A leaf. Times in seconds from now: an expired one is `begins_in=-172800, ends_in=-86400`."""
        self._count += 1
        base = os.path.join(self.directory, f"leaf-{self._count}")
        now = datetime.datetime.now(datetime.timezone.utc)
        names = [f"DNS:{name}" for name in dns] + [f"IP:{address}" for address in ip]
        with open(base + ".ext", "w", encoding="utf-8") as out:
            out.write("basicConstraints = critical,CA:FALSE\nkeyUsage = critical,digitalSignature\n"
                      f"extendedKeyUsage = {usage}\n")
            if names:
                out.write(f"subjectAltName = {','.join(names)}\n")
        _key(base + ".key")
        _openssl("req", "-new", "-config", self._config, "-subj", f"/CN={common_name}", "-key", base + ".key", "-out",
                 base + ".csr")
        stamp = lambda seconds: (now + datetime.timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%SZ")  # noqa: E731
        _openssl("ca", "-batch", "-notext", "-config", self._config, "-in", base + ".csr", "-out", base + ".pem", "-extfile",
                 base + ".ext", "-startdate", stamp(begins_in), "-enddate", stamp(ends_in))
        return Certificate(base + ".pem", base + ".key")

    def close(self):
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
