"""A cache that Bazels share: GET and PUT of files in a folder, over HTTP on the loopback.

with CacheServer(tmp_path) as cache:
    bazel.run("build", f"--remote_cache={cache.url}", "//...")
"""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class CacheServer:
    """Serves until the end of the `with`.

    Attributes:
        folder: `ac/` has results of actions, `cas/` files; each by its SHA-256.
        url: for --remote_cache.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        for kind in ("ac", "cas"):
            (folder / kind).mkdir(parents=True)
        handler = functools.partial(_Handler, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> CacheServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        path = Path(self.translate_path(self.path))
        new = path.with_name(f"{path.name}.{threading.get_ident()}")
        with open(new, "wb") as file:
            left = int(self.headers["Content-Length"])
            while left:
                chunk = self.rfile.read(min(left, 1 << 20))
                file.write(chunk)
                left -= len(chunk)
        new.rename(path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""
